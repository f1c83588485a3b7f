-- mend: puts one task back where its record says that it is, and takes it from everywhere else. The record is right; the
-- places follow it.

local mend

do
local ENDED = { 'completed', 'failed', 'timed_out', 'aborted' }
-- Where a task of a state belongs, beside the ready streams.
local PLACE_OF = { scheduled = 'scheduled', waiting = 'waiting', running = 'running', aborting = 'running' }
for _, state in ipairs(ENDED) do
  PLACE_OF[state] = 'done:' .. state
end

local function has_entry(rec)
  local level, entry = string.match(rec.run, '^(%a+):(%d+%-%d+)$')
  if not LEVEL_CODE[level] then
    return false
  end
  local found = pcall_redis('XRANGE', Q .. 'ready:' .. level, entry, entry)
  return not found.err and found[1] ~= nil
end

-- Rows of places in which the task has no business.
local function leave_others(id, own, did)
  for _, place in pairs({ 'scheduled', 'waiting', 'running', 'done:completed', 'done:failed', 'done:timed_out',
    'done:aborted' }) do
    if place ~= own and call('ZREM', Q .. place, id) == 1 then
      did[#did + 1] = 'no longer in ' .. place
    end
  end
end

local function enter_place(id, rec, place, did)
  local score = rec.at
  if place == 'running' then
    score = now
  end
  if not call('ZSCORE', Q .. place, id) then
    call('ZADD', Q .. place, int(score), id)
    did[#did + 1] = 'in ' .. place .. ' again'
  end
end

local function mend_deadline(id, rec, did)
  local due = rec.dl and not TERMINAL[rec.st]
  local there = call('ZSCORE', Q .. 'deadlines', id)
  if due and not there then
    call('ZADD', Q .. 'deadlines', int(rec.dl), id)
    did[#did + 1] = 'its deadline stands again'
  elseif there and not due then
    call('ZREM', Q .. 'deadlines', id)
    did[#did + 1] = 'no longer among the deadlines'
  end
end

-- A place in its lane for a task that lives and may be claimed; none for one that has ended.
local function mend_lane(id, rec, did)
  local hash = hash_of(rec.ln)
  local there = pcall_redis('ZSCORE', lane_key(hash), id)
  if TERMINAL[rec.st] and type(there) == 'string' then
    pcall_redis('ZREM', lane_key(hash), id)
    admit(hash)
    did[#did + 1] = 'out of its lane'
  elseif not there and rec.st ~= 'scheduled' and not TERMINAL[rec.st] then
    join(id, rec)
    did[#did + 1] = 'in its lane again'
  end
  if rec.st == 'waiting' and admit(hash) > 0 and rec.st ~= 'waiting' then
    did[#did + 1] = 'its turn in the lane'
  end
end

-- Returns what was done, none where all was right. The caller saves the record.
function mend(id, rec)
  local did = {}
  if rec.st == 'waiting' and not rec.ln then
    call('ZREM', Q .. 'waiting', id)
    place_queued(id, rec, rec.lv)
    event(id, 'waiting', 'queued', rec.n, 'repaired: it had no lane to wait in')
    did[1] = 'queued: it had no lane to wait in'
  end
  leave_others(id, PLACE_OF[rec.st], did)
  if rec.st == 'queued' and not has_entry(rec) then
    local level = string.match(rec.run, '^(%a+):')
    level = LEVEL_CODE[level] and level or rec.lv
    rec.run = level .. ':' .. call('XADD', Q .. 'ready:' .. level, '*', 'i', id)
    ledger.wake = true
    did[#did + 1] = 'an entry of its own again'
  elseif PLACE_OF[rec.st] then
    enter_place(id, rec, PLACE_OF[rec.st], did)
  end
  mend_deadline(id, rec, did)
  if rec.ln then
    mend_lane(id, rec, did)
  end
  if rec.ow and not pcall_redis('ZSCORE', owner_key(rec), id) then
    index_owner(id, rec)
    did[#did + 1] = 'among the tasks of its owner again'
  end
  if TERMINAL[rec.st] and call('DEL', Q .. 'lease:' .. id) == 1 then
    did[#did + 1] = 'no lease any more'
  end
  return did
end
end
