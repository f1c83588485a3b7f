-- claim: hands queued tasks to one worker, each under a lease, oldest of the highest level first.
--
-- TRANSITIONS: scheduled -> queued, waiting; queued -> running, failed, timed_out; waiting -> queued
-- ARGV: format incarnation worker number want max_bytes mode woken
--   number: grows by one per answered claim of this incarnation on this queue; the same again = a repeat
--   want: free slots; 0 gives a popped wake marker back
--   max_bytes: stop after so many bytes of bodies (the first always goes)
--   mode: open; bell (sent before the worker was woken: nobody knows whether it still stands, so it is given one plain task
--     at most); or closing (repeat the last answer and refuse every later claim)
--   woken: 1 if this worker popped the wake marker
-- DERIVED: Q:ready:<level> Q:task:<id> Q:body:<id> Q:lease:<id> Q:running Q:scheduled Q:token Q:claim:<incarnation>
--   Q:beat:<incarnation> Q:note:<id> Q:errors:<id> Q:watch Q:wake Q:done:failed Q:done:timed_out Q:deadlines Q:waiting Q:lanes Q:lane:<hash>
--   Q:owner:<hash> Q:gone Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, next_due_ms (ms until, at most 2 s, for the watcher; -1 none or not the watcher; -2 claim
--   openly at once), then per
--   task: id, record as it is now, and {body} if the record does not hold it}
-- TAGS: ok stale closed dead unregistered format wrongtype badargs
-- RELIES ON: one claim in flight per incarnation and queue; entries leave a ready stream from its head only
-- REPEATABLE: yes; under the same number the runs of the last answer that still stand, each with a fresh lease

local PROMOTE, REMEMBERED_MS, LOWEST_EVERY = 128, '86400000', 8
local LOWEST_FIRST = { 'low', 'normal', 'high', 'again', 'urgent' }
local NAME_BYTES = 64
local format, inc, worker = ARGV[1], ARGV[2], ARGV[3]

-- INCLUDE base known ledger plain plain_start

local number, want, max_bytes = whole(ARGV[4]), whole(ARGV[5]), whole(ARGV[6])
local mode, woken = ARGV[7], ARGV[8] == '1'
local MODES = { open = true, bell = true, closing = true }

local refused = unopened
if not refused and not (number and want and want <= 1024 and max_bytes and MODES[mode]
    and (woken or ARGV[8] == '0') and find(inc, '^[%w._-]+$') and #inc <= NAME_BYTES and #worker <= NAME_BYTES) then
  refused = { 'badargs', 'incarnation, worker, number, want (at most 1024), max_bytes, mode, woken' }
end
if refused then
  return refused
end

-- Entries of each level that this call has not seen. Most queues have normal tasks alone.
local READY = { urgent = Q .. 'ready:urgent', again = Q .. 'ready:again', high = Q .. 'ready:high',
  normal = Q .. 'ready:normal', low = Q .. 'ready:low' }
local unseen = { urgent = 0, again = 0, high = 0, low = 0, normal = read('XLEN', 'ready:normal') }
if call('EXISTS', READY.urgent, READY.again, READY.high, READY.low) > 0 then
  for _, level in ipairs(LEVELS) do
    unseen[level] = read('XLEN', 'ready:' .. level)
  end
end
read('ZCARD', 'running')
read('HLEN', 'totals')
read('XLEN', 'events')
read('ZCARD', 'wake')
local next_due = tonumber((read('ZRANGE', 'scheduled', '0', '0', 'WITHSCORES') or {})[2])
if next_due and next_due <= now then
  read('ZCARD', 'waiting')
end
local token = tonumber(read('GET', 'token') or 0) or 0
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
if last.dead or (last.closed and mode ~= 'closing') then
  -- Sent while it waited for the marker, which it may have taken.
  call('DEL', NEVER)
  call('ZADD', Q .. 'wake', '0', 'w')
  return { last.dead and 'dead' or 'closed' }
end
if number < last.n then
  return { 'stale' }
end
if mode == 'bell' then
  want = math.min(want, 1)
end

local reply = { 'ok', now, T, -1 }
local handed, bytes, looks, removed, let_go = {}, 0, 2048, 0, false
local chance = type(last.chance) == 'table' and last.chance or nil
-- Where each level goes on; whether an entry was left behind there.
local from, left_behind = {}, {}
-- Tokens only grow, also when the clock steps back.
token = math.max(token, now * 1000 - 1)

-- INCLUDE handed

local running, begun = {}, {}
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

-- What few claims need.
local function open_long_way()
  -- INCLUDE types notes policy fixed sound codec record bounds lease ended place lane_row lane ending phase promote failure leave outcome reclaim claim_rare levels
  return { take_all = take_all, repeat_last = repeat_last, promote_due = promote_due }
end

call('DEL', NEVER)
local opened
ledger.zadd.running = running
if mode == 'closing' or number == last.n then
  if number == last.n then
    open_long_way().repeat_last()
  end
  remember(mode == 'closing')
  ledger.wake = woken
  if mode == 'closing' and string.match(watched or '', '^%S+') == inc then
    call('DEL', Q .. 'watch')
  end
  commit()
  return reply
end
if next_due and next_due <= now then
  opened = open_long_way()
  next_due = opened.promote_due()
end

-- The usual claim: one level has entries, and its first tasks are plain. They leave in one trim.
local levels, level = 0, nil
for i = 1, #LEVELS do
  if unseen[LEVELS[i]] > 0 then
    levels, level = levels + 1, LEVELS[i]
  end
end
if levels == 1 and want > 0 then
  local page, keys, seen = call('XRANGE', READY[level], '-', '+', 'COUNT', want), {}, nil
  for i = 1, #page do
    keys[i] = TASK .. page[i][2][2]
  end
  prefetch(keys)
  local prefix = level .. ':'
  for i = 1, #page do
    local entry = page[i]
    if (bytes >= max_bytes and #handed > 0) or not start_plain(entry[2][2], keys[i], prefix, entry[1]) then
      break
    end
    seen = entry[1]
  end
  if seen then
    local ms, seq = string.match(seen, '^(%d+)%-(%d+)$')
    call('XTRIM', READY[level], 'MINID', ms .. '-' .. int(tonumber(seq) + 1))
    from[level], removed, looks = '(' .. seen, #handed, looks - #handed
  end
  unseen[level] = #page == 0 and 0 or unseen[level] - #handed
end
local left = levels > 1 and levels or (level and unseen[level] > 0 and 1 or 0)
if left > 0 and mode == 'open' and #handed < want and (bytes < max_bytes or #handed == 0) then
  opened = opened or open_long_way()
  left = opened.take_all()
end
if #handed > 0 then
  for attempt, ids in pairs(begun) do
    ledger.groups[#ledger.groups + 1] = { 'queued', 'running', attempt, worker, ids }
  end
  ledger.totals.started = #handed
  call('SET', Q .. 'token', int(token))
end
remember(false)
-- Wakes another worker only if more is claimable now, and by this release: looking in vain again helps nobody. What an
-- end in this call has let go from its lane was not there when the levels were counted.
ledger.wake = let_go or (left > 0 and (looks > 0 or removed > 0)) or (woken and want == 0)
-- INCLUDE watch
if mode == 'bell' and left > 0 then
  reply[4] = -2
end
commit()
return reply
