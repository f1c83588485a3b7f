-- record: records as tables, out of what `known` holds and back into it, and what can be said of one.

local TERMINAL = { completed = true, failed = true, timed_out = true, aborted = true }
local newer = {}

-- What stands for a text from outside in a key: 128 bits.
local function hash_of(text)
  return string.sub(redis.sha1hex(text), 1, 32)
end

-- Returns the record, nil when there is none, false when what is there cannot be read; false and its format when a
-- newer release wrote it.
local function load(id)
  local key = TASK .. id
  local rec = known[key]
  if rec == nil then
    rec = pcall_redis('GET', key) or ABSENT
    if rec ~= ABSENT and type(rec) ~= 'string' then
      rec = false
    end
  end
  if type(rec) == 'string' then
    rec, newer[key] = decode(rec)
  end
  known[key] = rec
  if rec == ABSENT then
    return nil
  end
  return rec, newer[key]
end

-- The tasks of an owner: what runs first, then what lives, then what has ended, each the newest first.
local owner_key, index_owner

do
local RUNNING_BAND, LIVE_BAND = 3e15, 2e15

function owner_key(rec)
  return Q .. 'owner:' .. hash_of(rec.ow)
end

-- By pcall: a foreign key in the place of an index costs the index, not the call.
function index_owner(id, rec)
  local score = rec.at
  if rec.st == 'running' or rec.st == 'aborting' then
    score = RUNNING_BAND + rec.bg
  elseif not TERMINAL[rec.st] then
    score = LIVE_BAND + rec.en
  end
  pcall_redis('ZADD', owner_key(rec), int(score), id)
end
end

local function save(id, rec)
  local key = TASK .. id
  if rec.ow and rec.was ~= rec.st then
    index_owner(id, rec)
  end
  rec.was = rec.st
  rec.packed = encode(rec)
  put(key, rec.packed)
  known[key] = rec
end

-- Moves a record to another state: every transition raises `rev`.
local function enter(rec, state)
  rec.st = state
  rec.rev = rec.rev + 1
end

-- The body, or nil when it is missing or of a wrong type.
local function body_of(id, rec)
  local body = string.sub(rec.fixed, body_begins(rec.fixed))
  if body ~= '' then
    return body
  end
  body = pcall_redis('GET', Q .. 'body:' .. id)
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
-- end the sweep decided has left nothing behind: it is lost. `le` is kept where the head names another run.
local function ended_as(rec, run, inc)
  local last = rec.le
  if last then
    return last[1] == run and last[2] == inc and last[3] ~= 'lost' and last[3] or nil
  end
  return TERMINAL[rec.st] and rec.run == run and rec.inc == inc and inc ~= '' and rec.st or nil
end
