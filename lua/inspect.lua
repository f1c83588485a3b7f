-- inspect: one atomic look at a queue and at the places of some of its tasks, for the doctor. Reads only.
--
-- TRANSITIONS: none
-- ARGV: format
-- ITEM: id
-- DERIVED: every key of the queue and of the tasks named
-- RETURNS: {'ok', now_ms, lease_ms, {name, value, ...} of the queue, then per item one list: id, record or '',
--   body type, lease value or '', lease ms left, score in running, scheduled, done:completed, done:failed,
--   done:timed_out, done:aborted, gone, waiting, deadlines, owner ('' = not there), rank in its lane or '', limit of
--   its lane, how many of it may have been let go, row of the lane there, member in front waits, entry there, record
--   readable by scripts, its incarnation recorded dead (1 or 0)}
-- TAGS: ok unregistered format wrongtype badargs
-- RELIES ON: at most 100 ids a call
-- REPEATABLE: yes

-- INCLUDE base types known ledger notes plain policy fixed sound codec record lane_row dead

local ROWS_BACK = 16
local format = ARGV[1]
local refused = unopened or (#ARGV > 101 and { 'badargs', 'at most 100 ids' })
if refused then
  return refused
end

local function size(command, suffix)
  local n = pcall_redis(command, Q .. suffix)
  return type(n) == 'number' and n or -1
end

local queue = {}
local function tell(name, value)
  queue[#queue + 1] = name
  queue[#queue + 1] = value or ''
end
for _, level in ipairs(LEVELS) do
  tell('ready:' .. level, size('XLEN', 'ready:' .. level))
end
for _, suffix in ipairs({ 'running', 'scheduled', 'waiting', 'deadlines', 'done:completed', 'done:failed', 'done:timed_out', 'done:aborted',
  'gone' }) do
  tell(suffix, size('ZCARD', suffix))
end
tell('events', size('XLEN', 'events'))
tell('never', call('EXISTS', NEVER))
for _, hash in ipairs({ 'totals', 'pulse' }) do
  local pairs_of = pcall_redis('HGETALL', Q .. hash)
  for i = 1, pairs_of.err and 0 or #pairs_of, 2 do
    tell(hash .. '.' .. pairs_of[i], pairs_of[i + 1])
  end
end
for suffix, expected in pairs(SHARED_TYPES) do
  local found = call('TYPE', Q .. suffix).ok
  if found ~= 'none' and found ~= expected then
    tell('wrongtype', suffix)
  end
end
local oldest
for _, level in ipairs(LEVELS) do
  local first = pcall_redis('XRANGE', Q .. 'ready:' .. level, '-', '+', 'COUNT', 1)
  if not first.err and first[1] then
    local ms = tonumber(string.match(first[1][1], '^%d+'))
    oldest = oldest and math.min(oldest, ms) or ms
  end
end
tell('oldest_queued_ms', oldest and int(oldest))

local function score(suffix, id)
  local s = pcall_redis('ZSCORE', Q .. suffix, id)
  return type(s) == 'string' and s or ''
end

-- Rank in its lane, limit, how many may have been let go, is there a row of the lane, does the member in front wait.
local function lane_of(id, rec)
  if not (rec and rec.ln) then
    return '', '1', '1', 0, 0
  end
  local hash = hash_of(rec.ln)
  local limit, most, text = row_of(hash)
  local rank = pcall_redis('ZRANK', lane_key(hash), id)
  rank = type(rank) == 'number' and rank
  local at, front = rank or 0, nil
  -- Members without a record are told of elsewhere.
  while at > 0 and not front and rank - at < ROWS_BACK do
    at = at - 1
    front = load(pcall_redis('ZRANGE', lane_key(hash), int(at), int(at))[1] or '')
  end
  return rank and int(rank) or '', int(limit), int(most), text and 1 or 0, front and front.st == 'waiting' and 1 or 0
end

local function entry_there(id, rec)
  local level, entry = string.match(rec and rec.run or '', '^(%a+):(%d+%-%d+)$')
  local found = level and pcall_redis('XRANGE', Q .. 'ready:' .. level, entry, entry)
  return found and not found.err and found[1] and found[1][2][2] == id and 1 or 0
end

-- Can the scripts read the record? A newer release's is told apart by its format.
local function is_readable(rec, newer)
  return (rec ~= false or newer) and 1 or 0
end

local reply = { 'ok', now, T, queue }
for at = 2, #ARGV do
  local id = ARGV[at]
  local raw = pcall_redis('GET', Q .. 'task:' .. id)
  local held = pcall_redis('GET', Q .. 'lease:' .. id)
  local rec, newer = load(id)
  local owned = rec and rec.ow and score('owner:' .. hash_of(rec.ow), id) or ''
  local rank, limit, most, row, behind_waiting = lane_of(id, rec)
  local dead = rec and (rec.st == 'running' or rec.st == 'aborting') and is_recorded_dead(rec.inc)
  reply[#reply + 1] = { id, type(raw) == 'string' and raw or '', call('TYPE', Q .. 'body:' .. id).ok,
    type(held) == 'string' and held or '', call('PTTL', Q .. 'lease:' .. id), score('running', id),
    score('scheduled', id), score('done:completed', id), score('done:failed', id), score('done:timed_out', id),
    score('done:aborted', id), score('gone', id), score('waiting', id), score('deadlines', id), owned, rank, limit, most,
    row, behind_waiting, entry_there(id, rec), is_readable(rec, newer), dead and 1 or 0 }
end
return reply
