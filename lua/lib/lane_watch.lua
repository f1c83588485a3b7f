-- lane_watch: the sweep's look at the lanes, one after another from sweep to sweep, so that one in which nothing ends goes on
-- too: its first task was lost, or somebody wrote into it.

local look_after_lanes

do
-- So many places a second, and at most so many of a sweep: bounded work, whatever the number of lanes and however often a
-- sweep comes. The last lane may go beyond it by its own places.
local PLACES_A_SECOND, MOST_PLACES, LEAST_PLACES = 500, 500, 16
local LANES_A_PAGE = 64
-- What a lane costs in places in which something is wrong.
local MENDING = 16
-- States up to this one live and do not wait.
local ABORTING = 4
local FIELD = cmsgpack.pack('ln')

-- Does the record stand for a task of the lane that lives and does not wait? At a glance, where this call has not read it.
-- What cannot be read holds its place.
local function holds(id, hash, mark)
  local raw = known[TASK .. id]
  if type(raw) == 'string' then
    local magic, v, st = byte(raw, 1, 3)
    return magic ~= MAGIC or v ~= FORMAT or not st or (st <= ABORTING and find(raw, mark, 1, true) ~= nil)
  end
  local rec = load(id)
  return is_member(rec, hash) and (not rec or rec.st ~= 'waiting')
end

-- Looks at the places of a lane that may be let go, `ids`. Returns how many places that cost.
local function look_after(hash, ids, limit, most, text)
  if #ids == 0 then
    forget_lane(hash)
    return 1
  end
  local mark = text and FIELD .. cmsgpack.pack(text) or ''
  local cost = #ids
  for i = 1, #ids do
    if not holds(ids[i], hash, mark) then
      admit(hash, true)
      cost = cost + MENDING
      break
    end
  end
  if most > limit then
    -- Those that were let go under a higher limit have ended, once the first behind the limit waits, or nobody is there.
    local behind = pcall_redis('ZRANGE', lane_key(hash), int(limit), int(limit))
    local rec = behind[1] and load(behind[1])
    if not behind[1] or (rec and rec.st == 'waiting') then
      set_row(hash, limit, limit, text)
    end
  end
  return cost
end

-- Some lanes, hashes and rows in turns, as far as `left` goes. A call may not reach the end of its last page, and a small hash
-- is one page alone: each begins elsewhere. Returns how many places it cost.
local function look_after_page(rows, left)
  local lanes, cost, members, keys = #rows / 2, 0, {}, {}
  local first = lanes > 0 and math.random(lanes) or 0
  for i = 0, lanes - 1 do
    if cost < left then
      local at = 2 * ((first + i) % lanes) + 1
      local hash, limit, most, text = rows[at], row_of(rows[at], rows[at + 1])
      local ids = pcall_redis('ZRANGE', lane_key(hash), '0', int(limit - 1))
      if not ids.err then
        members[#members + 1] = { hash, ids, limit, most, text }
        cost = cost + #ids
        for k = 1, #ids do
          keys[#keys + 1] = TASK .. ids[k]
        end
      end
    end
  end
  prefetch(keys)
  cost = 0
  for i = 1, #members do
    if cost < left then
      cost = cost + look_after(unpack(members[i], 1, 5))
    end
  end
  return cost
end

-- Looks after as many lanes as the time since the last sweep pays for. Returns where the next sweep begins.
function look_after_lanes(since)
  local left = math.min(MOST_PLACES, math.max(LEAST_PLACES, math.floor(since * PLACES_A_SECOND / 1000)))
  local cursor = call('HGET', Q .. 'pulse', 'lanes') or '0'
  cursor = whole(cursor) and cursor or '0'
  math.randomseed(now % 2147483647)
  repeat
    local page = pcall_redis('HSCAN', Q .. 'lanes', cursor, 'COUNT', LANES_A_PAGE)
    if page.err then
      return '0'
    end
    cursor = page[1]
    left = left - look_after_page(page[2], left)
  until cursor == '0' or left <= 0
  return cursor
end
end
