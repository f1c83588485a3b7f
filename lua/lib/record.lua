-- record: one task's record, a MessagePack map in one string, read whole and written whole.
--
-- Fields that this release does not know stay in the table and are written back, so that releases
-- N-1 and N work side by side. Bodies and outputs up to INLINE bytes lie in the record itself.

local INLINE = 1024

-- Returns the record, nil when there is none, false when what is there cannot be read.
local function load(id)
  local raw = pcall_redis('GET', Q .. 'task:' .. id)
  if not raw then
    return nil
  end
  if type(raw) ~= 'string' then
    return false
  end
  local ok, rec = pcall(cmsgpack.unpack, raw)
  if not ok or type(rec) ~= 'table' or type(rec.st) ~= 'string' or type(rec.v) ~= 'number' or rec.v > FORMAT then
    return false
  end
  return rec
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

-- The state that the run (run id, incarnation) left behind if it is the one that ended last, else nil.
local function ended_as(rec, run, inc)
  local last = rec.le
  if last and last[1] == run and last[2] == inc then
    return last[3]
  end
  return nil
end

local KEYS_OF_A_TASK = { 'task:', 'body:', 'lease:', 'result:', 'errors:', 'log:', 'note:', 'waiter:' }

-- Ids discarded or deleted a short while ago, so that the repeat of a lost reply gets a true answer.
local function is_gone(id)
  return call('ZSCORE', Q .. 'gone', id) and true or false
end
