-- record: one task's record, a MessagePack map in one string, read whole and written whole.
--
-- Fields that this release does not know stay in the table and are written back, so that releases
-- N-1 and N work side by side. Bodies and outputs up to INLINE bytes lie in the record itself.

local INLINE = 1024

-- What scripts reckon with and write into keys: of another type it would stop a script midway.
local TYPE_OF = { rev = 'number', n = 'number', f = 'number', c = 'number', d = 'number', bg = 'number', z = 'number',
  ml = 'number', un = 'number', us = 'number', lo = 'number', lb = 'number', e = 'string', run = 'string',
  inc = 'string', b = 'string', t = 'string', lh = 'string', sp = 'table', p = 'table', le = 'table', ar = 'table' }
local STATES = { scheduled = true, queued = true, running = true, aborting = true, completed = true, failed = true,
  timed_out = true, aborted = true }

local function numbers(list, ...)
  for _, key in ipairs({ ... }) do
    if type(list[key]) ~= 'number' or list[key] ~= list[key] then
      return false
    end
  end
  return true
end

local function sound(rec)
  for field, value in pairs(rec) do
    local expected = TYPE_OF[field]
    if expected and (type(value) ~= expected or value ~= value) then
      return false
    end
  end
  local st, sp = rec.st, rec.sp
  if not STATES[st] or (rec.lv and (not IS_LEVEL[rec.lv] or rec.lv == 'again')) or (st == 'queued' and not rec.e) then
    return false
  end
  if (st == 'running' or st == 'aborting') and not (rec.run and rec.inc and rec.n and rec.bg) then
    return false
  end
  if (sp and not (type(sp.c) == 'string' and numbers(sp, 'at', 'g', 'he'))) or (st == 'aborting' and not sp) then
    return false
  end
  return not rec.p or numbers(rec.p, 1, 2, 3, 4, 5, 6, 7, 8)
end

-- Returns the record, nil when there is none, false when what is there cannot be read; false and its format when a
-- newer release wrote it.
local function load(id)
  local raw = pcall_redis('GET', Q .. 'task:' .. id)
  if not raw then
    return nil
  end
  local ok, rec = pcall(cmsgpack.unpack, raw)
  if not ok or type(rec) ~= 'table' or type(rec.v) ~= 'number' then
    return false
  end
  if rec.v > FORMAT then
    return false, rec.v
  end
  return sound(rec) and rec
end

local function save(id, rec)
  call('SET', Q .. 'task:' .. id, cmsgpack.pack(rec))
end

-- Moves a record to another state: every transition raises `rev`.
local function enter(rec, state)
  rec.st = state
  rec.rev = (rec.rev or 0) + 1
end

local function set_body(id, rec, body)
  if #body <= INLINE then
    rec.b = body
  else
    call('SET', Q .. 'body:' .. id, body)
  end
end

-- The body, or nil when it is missing or of a wrong type.
local function body_of(id, rec)
  if rec.b then
    return rec.b
  end
  local body = pcall_redis('GET', Q .. 'body:' .. id)
  return type(body) == 'string' and body or nil
end

local function set_output(id, rec, output)
  if #output <= INLINE then
    rec.o = output
  else
    call('SET', Q .. 'result:' .. id, output)
  end
end

-- Does the run (run id, incarnation) own this record now?
local function owns(rec, run, inc)
  return rec.run == run and rec.inc == inc and (rec.st == 'running' or rec.st == 'aborting')
end

-- The state that the run (run id, incarnation) left behind if it is the one that ended last, else nil. A run whose
-- end the sweep decided has left nothing behind: it is lost.
local function ended_as(rec, run, inc)
  local last = rec.le
  if last and last[1] == run and last[2] == inc and last[3] ~= 'lost' then
    return last[3]
  end
  return nil
end

local GONE_MS = 60000
local KEYS_OF_A_TASK = { 'task:', 'body:', 'lease:', 'result:', 'errors:', 'log:', 'note:', 'waiter:' }

-- Ids discarded or deleted a short while ago, so that the repeat of a lost reply gets a true answer.
local function is_gone(id)
  local at = call('ZSCORE', Q .. 'gone', id)
  return at and now - tonumber(at) < GONE_MS or false
end
