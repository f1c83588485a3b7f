-- sound: whether what was unpacked of a record is what a record may be, so that no later line stumbles over it.

local sound_rare, sound

do
-- What scripts reckon with and write into keys: of another type it would stop a script midway.
local TYPE_OF = { ml = 'number', un = 'number', us = 'number', lo = 'number', lb = 'number', rr = 'number',
  pg = 'number', lh = 'string', fk = 'string', sp = 'table', le = 'table', ar = 'table', ln = 'string', ow = 'string',
  dl = 'number', dr = 'number', si = 'number', sa = 'number', la = 'number', sn = 'number', up = 'number',
  uc = 'number', ck = 'number', bu = 'table', ub = 'table', ph = 'table', uk = 'table', rc = 'table' }

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
  for _, budget in pairs(x.bu or {}) do
    if type(budget) ~= 'table' or not numbers(budget, 1, 2) then
      return false
    end
  end
  local sp, ph = x.sp, x.ph
  return (not sp or (type(sp.c) == 'string' and numbers(sp, 'at', 'g', 'he')))
    and (not ph or (type(ph.n) == 'string' and numbers(ph, 'at', 'tm') and (ph.e == nil or numbers(ph, 'e'))))
    and (not x.ub or (numbers(x.ub, 1) and texts(x.ub, 2, 3))) and (not x.uk or (numbers(x.uk, 1) and texts(x.uk, 2)))
end

function sound(rec)
  local st = rec.st
  if not st or not rec.lv or rec.lv == 'again' or #rec.fixed < POLICY_AT or (st == 'queued' and rec.run == '') then
    return false
  end
  if (st == 'running' or st == 'aborting') and (rec.run == '' or rec.inc == '' or rec.n == 0 or rec.bg == 0) then
    return false
  end
  return (st ~= 'aborting' or rec.sp ~= nil) and policy_of(rec) ~= false
end
end
