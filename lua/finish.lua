-- finish: a run says how it ended: a result, a failure, a stop it obeyed, or a hand-back at no cost.
--
-- TRANSITIONS: running -> completed, failed, timed_out, aborted, scheduled, queued; aborting -> aborted, completed
-- ARGV: format incarnation
-- ITEM: id run outcome kind delay message data
--   outcome: completed (data: output), failed (kind; delay: '' by policy, 'fatal', or ms), stopped (kind: the
--     cause the worker acted on), snoozed (delay: ms), released, unknown (message: the task name)
--   data: the output, or the MessagePack detail of a failure (exit code, signal)
-- DERIVED: Q:task:<id> Q:result:<id> Q:errors:<id> Q:lease:<id> Q:running Q:scheduled Q:ready:<level>
--   Q:done:<state> Q:gone Q:waiter:<id> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok repeat gone lost corrupt
-- RELIES ON: lib/outcome.lua being the only place where a run's end is decided
-- REPEATABLE: yes; the run that ended last gets its answer again as `repeat`

local OUTCOMES = { completed = true, failed = true, stopped = true, snoozed = true, released = true, unknown = true }
local KINDS = { error = true, exit_code = true, signal = true, invalid_result = true, rejected = true, [''] = true,
  lease_expired = true, abort = true, run_timeout = true, drain = true }
local FIELDS = 7
local format, inc = ARGV[1], ARGV[2]
local items, junk = {}, nil
for at = 3, #ARGV, FIELDS do
  local item = { id = ARGV[at], run = ARGV[at + 1], outcome = ARGV[at + 2], kind = ARGV[at + 3],
    delay = ARGV[at + 4], message = ARGV[at + 5], data = ARGV[at + 6] }
  if not item.data then
    junk = 'items come in groups of 7'
  elseif not OUTCOMES[item.outcome] or not KINDS[item.kind] then
    junk = 'outcome and kind'
  elseif item.delay ~= '' and item.delay ~= 'fatal' then
    item.ms = duration(item.delay)
    junk = junk or (not item.ms and 'delay') or nil
  end
  if item.outcome == 'snoozed' and not item.ms then
    junk = 'delay'
  end
  items[#items + 1] = item
end

local refused = open(format) or ((junk or not inc) and { 'badargs', junk or 'incarnation' })
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()

local function failure_of(item)
  return { kind = item.kind ~= '' and item.kind or 'error', message = item.message, fatal = item.delay == 'fatal',
    delay = item.ms, detail = item.data ~= '' and item.data or nil, cause = item.kind }
end

local function end_run(item, rec)
  local id = item.id
  if item.outcome == 'completed' then
    return end_completed(id, rec, item.data)
  end
  if item.outcome == 'stopped' or rec.sp then
    return end_stopped(id, rec, failure_of(item))
  end
  if item.outcome == 'failed' then
    return end_with_failure(id, rec, failure_of(item))
  end
  if item.outcome == 'snoozed' then
    count('snoozed')
    return again_after(id, rec, item.ms, rec.lv or 'normal', 'snooze')
  end
  if item.outcome == 'released' then
    return release(id, rec)
  end
  return end_unknown(id, rec, item.message)
end

local function finish(item)
  local rec = load(item.id)
  if rec == false then
    return 'corrupt', ''
  end
  if not rec or ledger.gone[item.id] then
    local gone = ledger.gone[item.id] or is_gone(item.id)
    return gone and 'gone' or 'lost', ''
  end
  if owns(rec, item.run, inc) then
    end_run(item, rec)
    return 'ok', rec.st
  end
  if ended_as(rec, item.run, inc) then
    return 'repeat', ended_as(rec, item.run, inc)
  end
  return 'lost', ''
end

local reply = { 'ok', now }
for _, item in ipairs(items) do
  local tag, state = finish(item)
  reply[#reply + 1] = tag
  reply[#reply + 1] = state
end
commit()
return reply
