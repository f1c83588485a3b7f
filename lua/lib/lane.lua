-- lane: its members in order, of which the first `limit` may be ready or run; the others wait.
--
-- A task joins when it could first be claimed, keeps its place across retries, and leaves when it ends. Lanes are reached
-- by pcall: one in the place of which something foreign lies is left alone, and no call stumbles over it.

local is_member, drop_member, admit, join, place_ready, leave_lane

do
local LANE_PAGE, LANE_ENDS = 16, 25
local NO_LIMIT_SET = '1'

-- Is what `load` gave a live task of the lane? What cannot be read may be one.
function is_member(rec, hash)
  return rec == false or (rec ~= nil and not TERMINAL[rec.st] and rec.ln ~= nil and hash_of(rec.ln) == hash)
end

-- Drops a member that is no live task of the lane any longer. One that was lost while it waited has no other row that
-- anybody would come upon.
function drop_member(hash, id)
  pcall_redis('ZREM', lane_key(hash), id)
  event(id, 'waiting', '', 0, 'dropped: no live task is in the lane under this name')
  if load(id) == nil then
    call('ZREM', Q .. 'waiting', id)
  end
  count('dropped')
end

-- Those of the first `limit` that wait still, found from the last place backwards: in front of one that does not wait,
-- none does, nor was one lost there. Where that is in doubt all are looked at (`thorough`). Returns them the last first, and
-- whether a member was dropped on the way, so that places moved up.
local function held_back(hash, thorough)
  local members = pcall_redis('ZCARD', lane_key(hash))
  local free, last = {}, math.min((row_of(hash)), tonumber(members) or 0) - 1
  while last >= 0 do
    local page = pcall_redis('ZRANGE', lane_key(hash), math.max(0, last - LANE_PAGE + 1), last)
    for i = #page, 1, -1 do
      local rec = load(page[i])
      if not is_member(rec, hash) then
        drop_member(hash, page[i])
        return free, true
      elseif rec and rec.st == 'waiting' then
        free[#free + 1] = page[i]
      elseif not thorough then
        return free
      end
    end
    last = last - LANE_PAGE
  end
  return free
end

-- Lets those go whose turn it is. May be called at any time, any number of times. Returns how many went.
function admit(hash, thorough)
  local free, moved = {}, true
  for _ = 1, LANE_PAGE do
    free, moved = held_back(hash, thorough)
    if not moved then
      break
    end
  end
  if moved then
    -- So many members are no tasks any more that the next call has to go on.
    return 0
  end
  for i = #free, 1, -1 do
    local id = free[i]
    local rec = load(id)
    call('ZREM', Q .. 'waiting', id)
    place_queued(id, rec, rec.lv)
    save(id, rec)
    event(id, 'waiting', 'queued', rec.n, 'lane')
  end
  return #free
end

-- Takes a place at the end of the lane, unless it has one. True if it has to wait there: who was let go once is not
-- held back again, also when the limit has fallen since.
function join(id, rec)
  local hash = hash_of(rec.ln)
  local key = lane_key(hash)
  if pcall_redis('ZSCORE', key, id) then
    return false
  end
  local tail = pcall_redis('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  pcall_redis('HSETNX', Q .. 'lanes', hash, NO_LIMIT_SET .. ' ' .. rec.ln)
  pcall_redis('ZADD', key, int((tonumber(tail[2]) or 0) + 1), id)
  local members = pcall_redis('ZCARD', key)
  return type(members) == 'number' and members > (row_of(hash))
end

-- Queued, or waiting if its lane has no place for it yet.
function place_ready(id, rec, level)
  if rec.ln and join(id, rec) then
    return place_waiting(id, rec)
  end
  place_queued(id, rec, level)
end

-- The task has ended: its place goes to the next.
function leave_lane(id, rec)
  local hash = hash_of(rec.ln)
  local ends = Q .. 'lane-ends:' .. hash
  pcall_redis('ZREM', lane_key(hash), id)
  pcall_redis('ZADD', ends, int(now), id)
  pcall_redis('ZREMRANGEBYRANK', ends, '0', -LANE_ENDS - 1)
  admit(hash)
end
end
