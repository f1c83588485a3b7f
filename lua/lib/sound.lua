-- sound: whether what was unpacked of a record is what a record may be, so that no later line stumbles over it. The same
-- as `common/src/record/wire.rs` reads: a test holds both against one table of cases.

local sound_rare, sound

do
-- What scripts reckon with and write into keys: of another type it would stop a script midway.
local TYPE_OF = { ml = 'number', un = 'number', us = 'number', lo = 'number', lb = 'number', rr = 'number',
  pg = 'number', lh = 'string', fk = 'string', sp = 'table', le = 'table', ar = 'table', ln = 'string', ow = 'string',
  dl = 'number', dr = 'number', si = 'number', sa = 'number', la = 'number', sn = 'number', up = 'number',
  uc = 'number', ck = 'number', bu = 'table', ub = 'table', ph = 'table', uk = 'table', rc = 'table' }
local CAUSES = { abort = true, run_timeout = true, phase_timeout = true, stalled = true, deadline = true,
  budget_exceeded = true, drain = true }
local KINDS = { error = true, exit_code = true, signal = true, lease_expired = true, invalid_result = true,
  rejected = true, run_timeout = true, phase_timeout = true, stalled = true, deadline = true, budget_exceeded = true,
  abandoned = true, abort = true }
local TEXT_BYTES, NAME_BYTES = 256, 64

local function numbers(list, ...)
  for _, key in ipairs({ ... }) do
    if type(list[key]) ~= 'number' or list[key] ~= list[key] then
      return false
    end
  end
  return true
end

local function texts(list, ...)
  for _, key in ipairs({ ... }) do
    if type(list[key]) ~= 'string' then
      return false
    end
  end
  return true
end

local function is_name(value)
  return type(value) == 'string' and #value <= NAME_BYTES and find(value, '^[%w._-]+$') ~= nil
end

local function is_text_or_none(value)
  return value == nil or (value ~= '' and #value <= TEXT_BYTES)
end

local function is_stop(sp)
  return type(sp.c) == 'string' and CAUSES[sp.c] and (sp.ec == nil or CAUSES[sp.ec])
    and numbers(sp, 'at', 'g', 'he')
    and (sp.by == nil or texts(sp, 'by')) and (sp.rs == nil or texts(sp, 'rs'))
end

function sound_rare(x)
  if type(x) ~= 'table' then
    return false
  end
  for field, value in pairs(x) do
    local expected = TYPE_OF[field]
    if type(field) ~= 'string' or (expected and (type(value) ~= expected or value ~= value)) then
      return false
    end
  end
  for name, budget in pairs(x.bu or {}) do
    if not is_name(name) or type(budget) ~= 'table' or #budget ~= 2 or not numbers(budget, 1, 2) then
      return false
    end
  end
  local sp, ph, le, rc = x.sp, x.ph, x.le, x.rc
  return (not sp or is_stop(sp)) and (not x.fk or KINDS[x.fk] ~= nil) and is_text_or_none(x.ln) and is_text_or_none(x.ow)
    and (not ph or (is_name(ph.n) and numbers(ph, 'at', 'tm') and (ph.e == nil or numbers(ph, 'e'))))
    and (not x.ub or (numbers(x.ub, 1) and texts(x.ub, 2, 3)))
    and (not x.uk or (#x.uk == 2 and numbers(x.uk, 1) and texts(x.uk, 2)))
    and (not le or (#le == 3 and texts(le, 1, 2, 3) and le[1] ~= '' and is_name(le[2])))
    and (not rc or (numbers(rc, 'at') and texts(rc, 'by', 'why')))
end

function sound(rec)
  local st = rec.st
  if not st or not rec.lv or rec.lv == 'again' or #rec.fixed < POLICY_AT or (st == 'queued' and rec.run == '') then
    return false
  end
  if (st == 'running' or st == 'aborting') and (rec.run == '' or not is_name(rec.inc) or rec.n == 0 or rec.bg == 0) then
    return false
  end
  return (st ~= 'aborting' or rec.sp ~= nil) and policy_of(rec) ~= false
end
end
