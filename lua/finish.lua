-- finish: a run says how it ended: a result, a failure, a stop it obeyed, or a hand-back at no cost.
--
-- TRANSITIONS: running -> completed, failed, timed_out, aborted, scheduled, queued, waiting; waiting -> queued; aborting -> aborted, completed
-- ARGV: format incarnation
-- ITEM: id run outcome data
--   outcome: completed (data: output), failed, stopped, snoozed, released, unknown
--   data of these: MessagePack map: k kind (of a failure; of a stop the cause the worker acted on), d delay ('' by
--     policy, 'fatal', or ms; of a snooze ms), m message (unknown: the task name), x detail of a failure, a map
--     (exit code, signal), b the work was over before any stop reached it; '' where there is nothing to say
-- DERIVED: Q:task:<id> Q:result:<id> Q:errors:<id> Q:lease:<id> Q:running Q:scheduled Q:ready:<level>
--   Q:waiting Q:lanes Q:lane:<hash> Q:owner:<hash> Q:deadlines Q:phases:<id> Q:done:<state> Q:gone Q:waited Q:waiter:<id> Q:beat:<incarnation> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state; or once for all where they are the same}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok repeat gone lost corrupt
-- RELIES ON: lib/outcome.lua being the only place where a run's end is decided
-- REPEATABLE: yes; the run that ended last gets its answer again as `repeat`

local format, inc = ARGV[1], ARGV[2]
local FIELDS, FIRST = 4, 3

-- INCLUDE base known ledger alike plain plain_end

-- What few ends need, opened by the first that does.
local function open_long_way()
  -- INCLUDE types notes ended policy fixed sound codec record bounds lease place lane_row lane ending phase failure leave outcome finish_rare
  return { prepare = prepare, finish = finish, refused = types_refused }
end

local opened
local function long_way()
  opened = opened or open_long_way()
  return opened
end

-- INCLUDE finish_plain

local junk
for at = FIRST, #args, FIELDS do
  if not args[at + 3] then
    junk = 'items come in groups of 4'
  elseif args[at + 2] ~= 'completed' then
    junk = junk or long_way().prepare(args[at + 2], args[at + 3])
  end
end
local refused = unopened or ((junk or not inc) and { 'badargs', junk or 'incarnation' })
if not refused then
  read('ZCARD', 'running')
  read('ZCARD', 'done:completed')
  read('HLEN', 'totals')
  read('XLEN', 'events')
  if retention.completed == 0 then
    read('ZCARD', 'gone')
  end
  refused = misread
end
if refused then
  return refused
end

call('DEL', NEVER)
local keys = {}
for at = FIRST, #args, FIELDS do
  keys[#keys + 1] = TASK .. args[at]
end
prefetch(keys)
somebody_waits = call('EXISTS', Q .. 'waited') == 1
ledger.zrem.running = running
now_text, last_beat = int(now), tonumber(pcall_redis('GET', Q .. 'beat:' .. inc) or 0) or now
local reply = { 'ok', now }
for i = 1, #keys do
  local at = FIRST + (i - 1) * FIELDS
  local id, run, outcome, data = args[at], args[at + 1], args[at + 2], args[at + 3]
  local tag, state = 'ok', 'completed'
  if outcome ~= 'completed' or not finish_plain(id, keys[i], run, data) then
    -- Nothing but the never-key is written before the first item that goes this way.
    if long_way().refused then
      return opened.refused
    end
    tag, state = opened.finish(id, run, outcome, data)
  end
  if tag ~= alike.tag or state ~= alike.state then
    tell(reply, i, tag, state)
  end
end
if completed > 0 then
  local totals, index = ledger.totals, retention.completed == 0 and 'gone' or 'done:completed'
  totals.completed = (totals.completed or 0) + completed
  if index == 'gone' then
    totals.gone = (totals.gone or 0) + completed
  end
  for _, row in ipairs(ledger.zadd[index] or {}) do
    rows[#rows + 1] = row
  end
  ledger.zadd[index] = rows
  for attempt, ids in pairs(ended) do
    ledger.groups[#ledger.groups + 1] = { 'running', 'completed', attempt, '', ids }
  end
end
commit()
return reply
