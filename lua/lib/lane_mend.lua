-- lane_mend: the order of a lane and its row, put right. Nothing is let go by the repair of a single task: another one, which
-- runs, may have lost its place as well. So places come first, and whose turn it is comes in a call of its own.

local mend_place, mend_row, mend_whole_lane

do
-- Of a lane at most so many were let go, however its limit fell.
local MOST_LOOKED = 512
-- How many members from the first on do not wait, by lane.
local in_front = {}

local function waits(id)
  local rec = load(id)
  return rec and rec.st == 'waiting'
end

local function let_go(hash)
  if not in_front[hash] then
    local ids = pcall_redis('ZRANGE', lane_key(hash), '0', int(MOST_LOOKED - 1))
    local n = 0
    while not ids.err and ids[n + 1] and not waits(ids[n + 1]) do
      n = n + 1
    end
    in_front[hash] = n
  end
  return in_front[hash]
end

local function to_front(hash, id)
  local first, n = pcall_redis('ZRANGE', lane_key(hash), '0', '0', 'WITHSCORES'), let_go(hash)
  pcall_redis('ZADD', lane_key(hash), int((tonumber(first[2]) or 1) - 1), id)
  in_front[hash] = n + 1
end

-- A member that was let go stands behind one that waits: it and those right behind it that were let go as well come before
-- all that wait. True if it was so.
local function mend_order(hash, id)
  local rank = pcall_redis('ZRANK', lane_key(hash), id)
  if type(rank) ~= 'number' or rank < let_go(hash) then
    return false
  end
  local behind = pcall_redis('ZRANGE', lane_key(hash), int(rank), int(rank + MOST_LOOKED - 1))
  local last = 1
  while behind[last + 1] and not waits(behind[last + 1]) do
    last = last + 1
  end
  for i = last, 1, -1 do
    to_front(hash, behind[i])
  end
  return true
end

-- The row of a lane that has none: who was let go stays so.
function mend_row(hash, text, did)
  local _, _, known_text = row_of(hash)
  if not known_text then
    set_row(hash, 1, let_go(hash), text)
    did[#did + 1] = 'its lane is listed again, with a limit of 1'
  end
end

-- A place in its lane for a task that lives and may be claimed, in front of those that wait if it does not; none for one
-- that has ended. Returns the lane if it has to be looked at as a whole.
function mend_place(id, rec, did)
  local hash, before = hash_of(rec.ln), #did
  local place = pcall_redis('ZSCORE', lane_key(hash), id)
  local there = type(place) == 'string'
  if place and not there then
    -- Something foreign lies there.
    return nil
  elseif TERMINAL[rec.st] then
    if there then
      pcall_redis('ZREM', lane_key(hash), id)
      did[#did + 1] = 'out of its lane'
    end
  elseif rec.st == 'waiting' then
    if not there then
      join(id, rec)
      did[#did + 1] = 'in its lane again'
    end
  elseif not there and (rec.st ~= 'scheduled' or rec.n > 0) then
    to_front(hash, id)
    did[#did + 1] = 'in its lane again'
  elseif there and mend_order(hash, id) then
    did[#did + 1] = 'before those of its lane that wait'
  end
  if there or not TERMINAL[rec.st] then
    mend_row(hash, rec.ln, did)
  end
  return (#did > before or not TERMINAL[rec.st]) and hash or nil
end

-- Lets go whose turn it is, when all places are right. More than may be let go are so: that is told of, and remembered.
function mend_whole_lane(hash)
  local did = {}
  local admitted = admit(hash, true)
  if admitted > 0 then
    did[1] = int(admitted) .. ' of its lane had their turn'
  end
  in_front[hash] = nil
  local limit, most, text = row_of(hash)
  local now_go = let_go(hash)
  if text and now_go > most then
    set_row(hash, limit, now_go, text)
    did[#did + 1] = int(now_go) .. ' of its lane go at a time until they end, of which ' .. int(limit) .. ' may'
  end
  return did
end
end
