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

-- Is the entry that its record names there?
local function has_entry(id, rec)
  local level, entry = string.match(rec.run, '^(%a+):(%d+%-%d+)$')
  if not LEVEL_CODE[level] then
    return false
  end
  local found = pcall_redis('XRANGE', Q .. 'ready:' .. level, entry, entry)
  return not found.err and found[1] ~= nil and found[1][2][2] == id
end

-- How far ahead the row of a deadline that has passed may lie while the run is asked to end.
local function latest_look(rec)
  return math.max(rec.sp and rec.sp.he or 0, now) + T + B
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

-- Is the row where it may be? The record says when a task is due; a look at a run is never far.
local function is_right(score, rec, place)
  if place == 'scheduled' then
    return score == rec.at
  end
  return place ~= 'running' or score <= now + T + B
end

local function enter_place(id, rec, place, did)
  local score = tonumber(call('ZSCORE', Q .. place, id) or nil)
  if not score or not is_right(score, rec, place) then
    call('ZADD', Q .. place, int(place == 'running' and now or rec.at), id)
    did[#did + 1] = score and 'its time in ' .. place .. ' is right again' or 'in ' .. place .. ' again'
  end
end

-- The row of a deadline may lie behind it while a run that is past it is asked to end.
local function mend_deadline(id, rec, did)
  local due = rec.dl and not TERMINAL[rec.st]
  local there = call('ZSCORE', Q .. 'deadlines', id)
  local at = tonumber(there)
  if not due then
    if there then
      call('ZREM', Q .. 'deadlines', id)
      did[#did + 1] = 'no longer among the deadlines'
    end
  elseif not at then
    call('ZADD', Q .. 'deadlines', int(rec.dl), id)
    did[#did + 1] = 'its deadline stands again'
  elseif at ~= rec.dl and (rec.dl > now or PLACE_OF[rec.st] ~= 'running' or at > latest_look(rec)) then
    call('ZADD', Q .. 'deadlines', int(rec.dl), id)
    did[#did + 1] = 'its deadline stands as the record says'
  end
end

local function mend_entry(id, rec, did)
  local there = has_entry(id, rec)
  if rec.st == 'queued' and not there then
    local level = string.match(rec.run, '^(%a+):')
    level = LEVEL_CODE[level] and level or rec.lv
    rec.run = level .. ':' .. call('XADD', Q .. 'ready:' .. level, '*', 'i', id)
    ledger.wake = true
    did[#did + 1] = 'an entry of its own again'
  elseif rec.st ~= 'queued' and there then
    local level, entry = string.match(rec.run, '^(%a+):(.*)$')
    call('XDEL', Q .. 'ready:' .. level, entry)
    did[#did + 1] = 'no longer in ready:' .. level
  end
end

-- Returns what was done, none where all was right, and the lane that is to be looked at as a whole. The caller saves the
-- record.
function mend(id, rec)
  local did, hash = {}, nil
  if rec.st == 'waiting' and not rec.ln then
    call('ZREM', Q .. 'waiting', id)
    place_queued(id, rec, rec.lv)
    event(id, 'waiting', 'queued', rec.n, 'repaired: it had no lane to wait in')
    did[1] = 'queued: it had no lane to wait in'
  end
  leave_others(id, PLACE_OF[rec.st], did)
  mend_entry(id, rec, did)
  if PLACE_OF[rec.st] then
    enter_place(id, rec, PLACE_OF[rec.st], did)
  end
  mend_deadline(id, rec, did)
  if rec.ln then
    hash = mend_place(id, rec, did)
  end
  if rec.ow and not pcall_redis('ZSCORE', owner_key(rec), id) then
    index_owner(id, rec)
    did[#did + 1] = 'among the tasks of its owner again'
  end
  if PLACE_OF[rec.st] ~= 'running' and call('DEL', Q .. 'lease:' .. id) == 1 then
    did[#did + 1] = 'no lease any more'
  end
  if call('ZREM', Q .. 'gone', id) == 1 then
    did[#did + 1] = 'no longer noted as removed'
  end
  return did, hash
end
end
