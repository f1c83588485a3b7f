-- claim: hands queued tasks to one worker, each under a lease, oldest of the highest level first.
--
-- TRANSITIONS: scheduled -> queued; queued -> running, failed
-- ARGV: format incarnation worker number want max_bytes mode woken
--   number: grows by one per answered claim of this incarnation on this queue; the same again = a repeat
--   want: free slots; 0 gives a popped wake marker back
--   max_bytes: stop after so many bytes of bodies (the first always goes)
--   mode: open, or closing (repeat the last answer and refuse every later claim)
--   woken: 1 if this worker popped the wake marker
-- DERIVED: Q:ready:<level> Q:task:<id> Q:body:<id> Q:lease:<id> Q:running Q:scheduled Q:token Q:claim:<incarnation>
--   Q:beat:<incarnation> Q:note:<id> Q:errors:<id> Q:watch Q:wake Q:done:failed Q:gone Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, next_due_ms (ms until, at most 2 s, for the watcher; -1 none or not the watcher), then per
--   task: id, record as it is now, and {body} if the record does not hold it}
-- TAGS: ok stale closed unregistered format wrongtype badargs
-- RELIES ON: one claim in flight per incarnation and queue; entries leave a ready stream from its head only
-- REPEATABLE: yes; under the same number the runs of the last answer that still stand, each with a fresh lease

local PROMOTE, REMEMBERED_MS, LOWEST_EVERY = 128, 86400000, 8
local LOWEST_FIRST = { 'low', 'normal', 'high', 'again', 'urgent' }
local NAME_BYTES = 64
local format, inc, worker = ARGV[1], ARGV[2], ARGV[3]

-- INCLUDE base known moves ledger plain plain_start

local number, want, max_bytes = whole(ARGV[4]), whole(ARGV[5]), whole(ARGV[6])
local mode, woken = ARGV[7], ARGV[8] == '1'

local refused = open(format)
if not refused and not (number and want and want <= 1024 and max_bytes and (mode == 'open' or mode == 'closing')
    and (woken or ARGV[8] == '0') and inc ~= '' and #inc <= NAME_BYTES and #worker <= NAME_BYTES) then
  refused = { 'badargs', 'incarnation, worker, number, want (at most 1024), max_bytes, mode, woken' }
end
if refused then
  return refused
end

-- Entries of each level that this call has not seen.
local unseen = {}

local function read_lengths()
  for _, level in ipairs(LEVELS) do
    unseen[level] = read('XLEN', 'ready:' .. level)
  end
end

read_lengths()
read('ZCARD', 'running')
read('XLEN', 'events')
read('ZCARD', 'wake')
local next_due = tonumber((read('ZRANGE', 'scheduled', 0, 0, 'WITHSCORES') or {})[2])
local token = tonumber(read('GET', 'token') or 0) or 0
local started = tonumber(read('HGET', 'totals', 'started') or 0) or 0
local watched = read('GET', 'watch')
local remembered = read('GET', 'claim:' .. inc)
local readable, last = pcall(cmsgpack.unpack, remembered or '')
if not remembered then
  last = { n = -1, ids = '' }
elseif not readable or type(last) ~= 'table' or type(last.n) ~= 'number' or type(last.ids) ~= 'string' then
  misread = misread or { 'wrongtype', Q .. 'claim:' .. inc }
end
if misread then
  return misread
end
if last.closed and mode == 'open' then
  -- Sent while it waited for the marker, which it may have taken.
  allowed_first_write()
  call('ZADD', Q .. 'wake', 0, 'w')
  return { 'closed' }
end
if number < last.n then
  return { 'stale' }
end

local reply = { 'ok', now, T, -1 }
local handed, bytes, looks = {}, 0, 2048
local chance = type(last.chance) == 'table' and last.chance or nil

local function hand_out(id, packed, apart)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, packed, apart ~= '' and { apart } or nil
  handed[#handed + 1] = id
  bytes = bytes + #packed + #apart
end

local function remember(closed)
  local answer = { n = number, ids = table.concat(handed, '\n'), closed = closed or nil, chance = chance }
  call('SET', Q .. 'claim:' .. inc, cmsgpack.pack(answer), 'PX', REMEMBERED_MS)
end

-- Tokens only grow, also when the clock steps back.
token = math.max(token, now * 1000 - 1)

local function next_token()
  token = token + 1
  return token
end

-- What few tasks need, opened by the first that does.
local function open_long_way()
  -- INCLUDE types policy fixed codec record lease ended place promote outcome reclaim claim_rare
  return { take = take, repeat_last = repeat_last, promote = promote }
end

local opened

local function long_way()
  opened = opened or open_long_way()
  return opened
end

local running, begun = rows_of('running'), {}
local plain_look = int(now + math.min(T, DEFAULT_TIMEOUT_MS))

local function start_plain(id, key, prefix, entry)
  local after, attempt = plain_start(known[key], prefix, entry, token + 1)
  if not after then
    return false
  end
  token = token + 1
  put(key, after)
  local n = #running
  running[n + 1], running[n + 2] = plain_look, id
  local same = begun[attempt] or {}
  begun[attempt] = same
  same[#same + 1] = id
  hand_out(id, after, '')
  return true
end

-- Where each level goes on; whether it has left one behind.
local from, left_behind, removed = {}, {}, 0

local function has_room()
  return looks > 0 and (#handed == 0 or bytes < max_bytes)
end

-- Takes up to `most` tasks from the head of a level. What was seen leaves in one trim, or one by one behind an entry
-- that stays.
local function take_from(level, most)
  local stream, before, leaving, seen = Q .. 'ready:' .. level, #handed, {}, nil
  local page, keys = call('XRANGE', stream, from[level] or '-', '+', 'COUNT', most), {}
  for i = 1, #page do
    keys[i] = TASK .. page[i][2][2]
  end
  prefetch(keys)
  local prefix = level .. ':'
  for i, entry in ipairs(page) do
    if not has_room() then
      break
    end
    seen, looks, unseen[level] = entry[1], looks - 1, unseen[level] - 1
    local id = entry[2][2]
    if start_plain(id, keys[i], prefix, seen) or long_way().take(id, prefix .. seen) then
      leaving[#leaving + 1] = seen
    else
      left_behind[level] = true
    end
  end
  if not seen then
    unseen[level] = 0
    return 0
  end
  from[level] = '(' .. seen
  if not left_behind[level] then
    local ms, seq = string.match(seen, '^(%d+)%-(%d+)$')
    call('XTRIM', stream, 'MINID', ms .. '-' .. int(tonumber(seq) + 1))
  elseif #leaving > 0 then
    call('XDEL', stream, unpack(leaving))
  end
  removed = removed + #leaving
  return #handed - before
end

local function take_up_to(most, levels)
  for _, level in ipairs(levels) do
    while most > 0 and unseen[level] > 0 and has_room() do
      most = most - take_from(level, most)
    end
  end
end

-- How many levels hold entries that this call has not seen.
local function levels_left()
  local left = 0
  for _, level in ipairs(LEVELS) do
    left = left + (unseen[level] > 0 and 1 or 0)
  end
  return left
end

-- Every eighth started task is read lowest first, so that nothing starves.
local function take_all()
  while #handed < want and levels_left() > 0 and has_room() do
    local until_lowest = LOWEST_EVERY - 1 - (started + #handed) % LOWEST_EVERY
    if levels_left() == 1 then
      take_up_to(want - #handed, LEVELS)
    elseif until_lowest > 0 then
      take_up_to(math.min(until_lowest, want - #handed), LEVELS)
    else
      take_up_to(1, LOWEST_FIRST)
    end
  end
end

-- INCLUDE watch
allowed_first_write()

if mode == 'closing' or number == last.n then
  if number == last.n then
    long_way().repeat_last()
  end
  remember(mode == 'closing')
  ledger.wake = woken
  commit()
  return reply
end

if next_due and next_due <= now then
  long_way().promote(PROMOTE)
  read_lengths()
  next_due = tonumber(call('ZRANGE', Q .. 'scheduled', 0, 0, 'WITHSCORES')[2])
end
take_all()
if #handed > 0 then
  for attempt, ids in pairs(begun) do
    events_of(ids, 'queued', 'running', attempt, worker)
  end
  count('started', #handed)
  call('SET', Q .. 'token', int(token))
end
remember(false)
-- Wakes another worker only if more is claimable now, and by this release: looking in vain again helps nobody.
ledger.wake = (levels_left() > 0 and (looks > 0 or removed > 0)) or (woken and want == 0)
reply[4] = watch(watched, next_due, #handed >= want)
commit()
return reply
