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
--   Q:watch Q:wake Q:done:failed Q:gone Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, next_due_ms (ms until, at most 2 s, for the watcher; -1 none or not the watcher), then per
--   task: id, run, attempt, failures, reclaims, token, begun_ms, stop cause or '', stop hard_end_ms, body}
-- TAGS: ok stale closed unregistered format wrongtype badargs
-- RELIES ON: one claim in flight per incarnation and queue; entries leave a ready stream from its head only
-- REPEATABLE: yes; under the same number the runs of the last answer that still stand, each with a fresh lease

local PROMOTE, REMEMBERED_MS, WATCH_MS, MOST_WATCH_MS, LOWEST_EVERY = 128, 86400000, 4000, 2000, 8
local LOWEST_FIRST = { 'low', 'normal', 'high', 'again', 'urgent' }
local NAME_BYTES = 64
local format, inc, worker = ARGV[1], ARGV[2], ARGV[3]
local number, want, max_bytes = whole(ARGV[4]), whole(ARGV[5]), whole(ARGV[6])
local mode, woken = ARGV[7], ARGV[8] == '1'

local refused = open(format)
if not refused and not (number and want and want <= 1024 and max_bytes and (mode == 'open' or mode == 'closing')
    and (woken or ARGV[8] == '0') and inc ~= '' and #inc <= NAME_BYTES and #worker <= NAME_BYTES) then
  refused = { 'badargs', 'incarnation, worker, number, want (at most 1024), max_bytes, mode, woken' }
end
refused = refused or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running',
  'scheduled', 'done:failed', 'gone', 'token', 'watch', 'wake', 'totals', 'events')
if refused then
  return refused
end

local claim_key = Q .. 'claim:' .. inc
local remembered = pcall_redis('GET', claim_key)
if type(remembered) == 'table' then
  return { 'wrongtype', claim_key }
end
local readable, last = pcall(cmsgpack.unpack, remembered or '')
if not remembered then
  last = { n = -1, runs = {} }
elseif not readable or type(last) ~= 'table' or type(last.n) ~= 'number' or type(last.runs) ~= 'table' then
  return { 'wrongtype', claim_key }
end
if last.closed and mode == 'open' then
  return { 'closed' }
end
if number < last.n then
  return { 'stale' }
end

allowed_first_write()
local reply = { 'ok', now, T, -1 }
local handed, bytes, looks = {}, 0, 2048

-- Tasks on their last chance share no worker: else one that kills its worker each time ends its neighbours with it.
local chance = type(last.chance) == 'table' and last.chance or nil

local function has_last_chance_in_hand()
  local rec = chance and type(chance[1]) == 'string' and load(chance[1])
  return rec and owns(rec, chance[2], inc)
end

local function hand_out(id, rec, body)
  local sp = rec.sp
  for _, value in ipairs({ id, rec.run, rec.n, rec.f or 0, rec.c or 0, rec.t, rec.bg, sp and sp.c or '',
    sp and int(sp.he) or 0, body }) do
    reply[#reply + 1] = value
  end
  handed[#handed + 1] = id
  handed[#handed + 1] = rec.run
  bytes = bytes + #body
end

local function remember(closed)
  local answer = { n = number, runs = handed, closed = closed or nil, chance = chance }
  call('SET', claim_key, cmsgpack.pack(answer), 'PX', REMEMBERED_MS)
end

local function repeat_last()
  for i = 1, #last.runs, 2 do
    local id, run = last.runs[i], last.runs[i + 1]
    local rec = type(id) == 'string' and load(id)
    local body = rec and owns(rec, run, inc) and body_of(id, rec)
    if body then
      if rec.ml then
        rec.ml = nil
        save(id, rec)
      end
      lease(id, rec, T)
      hand_out(id, rec, body)
    end
  end
end

if mode == 'closing' or number == last.n then
  if number == last.n then
    repeat_last()
  end
  remember(mode == 'closing')
  if woken then
    ledger.wake = true
  end
  commit()
  return reply
end

local token = tonumber(call('GET', Q .. 'token') or 0)
local tokens_before = token

local function start(id, rec, run, body)
  token = math.max(token + 1, now * 1000)
  enter(rec, 'running')
  rec.run, rec.inc, rec.w, rec.e = run, inc, worker, nil
  rec.n, rec.t, rec.bg = (rec.n or 0) + 1, int(token), now
  if rec.us then
    delete_key('note:' .. id)
  end
  rec.us, rec.lo, rec.pg = nil, nil, nil
  save(id, rec)
  lease(id, rec, T)
  local timeout = policy_of(rec)[7]
  index('running', now + (timeout > 0 and math.min(T, timeout) or T), id)
  event(id, 'queued', 'running', rec.n, worker)
  count('started')
  hand_out(id, rec, body)
end

-- One entry of a ready stream: starts its task (1), or says why it goes (0); nil: it stays, for a newer release or
-- another worker.
local function take(level, entry, id)
  local rec, newer = load(id)
  local run = level .. ':' .. entry
  if newer then
    return nil
  end
  if not rec or rec.st ~= 'queued' or rec.e ~= run then
    event(id, 'queued', '', 0, 'dropped: no record is queued under this entry')
    count('dropped')
    return 0
  end
  if on_last_chance(rec) then
    if has_last_chance_in_hand() then
      return nil
    end
    chance = { id, run }
  end
  local body = body_of(id, rec)
  if body then
    start(id, rec, run, body)
    return 1
  end
  rec.w = worker
  note_failure(id, rec, { kind = 'rejected', message = 'the body of the task is missing in Redis' })
  place_ended(id, rec, 'failed')
  event(id, 'queued', 'failed', rec.n or 0, 'rejected')
  settle(id, rec)
  return 0
end

-- Entries of each level that this call has not seen; where it goes on; whether it has left one behind.
local unseen, from, left_behind, removed = {}, {}, {}, 0

local function has_room()
  return looks > 0 and (#handed == 0 or bytes < max_bytes)
end

-- Takes up to `most` tasks from the head of a level. What was seen leaves in one trim, or one by one behind an entry
-- that stays.
local function take_from(level, most)
  local stream, before, leaving, seen = Q .. 'ready:' .. level, #handed, {}, nil
  for _, entry in ipairs(call('XRANGE', stream, from[level] or '-', '+', 'COUNT', most)) do
    if not has_room() then
      break
    end
    seen, looks, unseen[level] = entry[1], looks - 1, unseen[level] - 1
    if take(level, seen, entry[2][2]) then
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
  return (#handed - before) / 2
end

local function take_up_to(most, levels)
  for _, level in ipairs(levels) do
    while most > 0 and unseen[level] > 0 and has_room() do
      most = most - take_from(level, most)
    end
  end
end

local function claimable()
  for _, level in ipairs(LEVELS) do
    if unseen[level] > 0 then
      return true
    end
  end
  return false
end

promote(PROMOTE)
for _, level in ipairs(LEVELS) do
  unseen[level] = call('XLEN', Q .. 'ready:' .. level)
end
local started = tonumber(call('HGET', Q .. 'totals', 'started') or 0) or 0
while #handed / 2 < want and claimable() and has_room() do
  local until_lowest = LOWEST_EVERY - 1 - (started + #handed / 2) % LOWEST_EVERY
  if until_lowest > 0 then
    take_up_to(math.min(until_lowest, want - #handed / 2), LEVELS)
  else
    take_up_to(1, LOWEST_FIRST)
  end
end
if token ~= tokens_before then
  call('SET', Q .. 'token', int(token))
end
remember(false)

-- The next due time is told to one idle worker. One that has no free slot left hands watching on.
local function watch()
  local first = call('ZRANGE', Q .. 'scheduled', 0, 0, 'WITHSCORES')
  local holder = call('GET', Q .. 'watch')
  if #handed / 2 >= want then
    if holder == inc then
      call('DEL', Q .. 'watch')
    end
    ledger.wake = ledger.wake or ((holder == inc or woken) and first[1] ~= nil)
  elseif woken or not holder or holder == inc then
    call('SET', Q .. 'watch', inc, 'PX', WATCH_MS)
    reply[4] = first[2] and math.max(0, math.min(tonumber(first[2]) - now, MOST_WATCH_MS)) or -1
  end
end

-- Wakes another worker only if more is claimable now, and by this release: looking in vain again helps nobody.
ledger.wake = (claimable() and (looks > 0 or removed > 0)) or (woken and want == 0)
watch()
commit()
return reply
