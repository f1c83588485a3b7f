-- abort: ends a task that is not running at once; asks the run of a running one to stop.
--
-- TRANSITIONS: queued, scheduled, waiting -> aborted; running -> aborting; aborting -> aborted, failed; waiting -> queued
-- ARGV: format
-- ITEM: id request grace by reason mode
--   request: an id kept across retries; grace: ms, or '' for the task's own; by, reason: text
--   mode: '' or abandon: a run whose worker says that the system does not end its processes is given up, on record
-- DERIVED: Q:task:<id> Q:ready:<level> Q:scheduled Q:waiting Q:deadlines Q:lanes Q:lane:<hash> Q:owner:<hash> Q:running
--   Q:lease:<id> Q:done:failed Q:done:aborted Q:gone Q:pulse Q:waited Q:waiter:<id> Q:errors:<id>
--   Q:phases:<id> Q:claim:<incarnation> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state, hard_end_ms, kill_at_ms}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ended requested already not_found corrupt
-- RELIES ON: the answer being decided by the same record that the write changes
-- REPEATABLE: yes; the same request id only answers

-- INCLUDE base types known ledger notes plain policy fixed sound codec record bounds lease ended place lane_row lane ending phase stop pulse failure leave outcome reclaim dead proof

local FIELDS, REQUEST_BYTES, BY_BYTES, REASON_BYTES = 6, 64, 256, 1024
local format = ARGV[1]
local items, ids, junk = {}, {}, nil
for at = 2, #ARGV, FIELDS do
  local item = { id = ARGV[at], request = ARGV[at + 1], by = string.sub(ARGV[at + 3] or '', 1, BY_BYTES),
    reason = string.sub(ARGV[at + 4] or '', 1, REASON_BYTES), mode = ARGV[at + 5] }
  if not item.mode or item.request == '' or #item.request > REQUEST_BYTES then
    junk = 'items come in groups of 6, the second 1 to 64 bytes'
  elseif item.mode ~= '' and item.mode ~= 'abandon' then
    junk = 'mode'
  elseif ARGV[at + 2] ~= '' then
    item.grace = duration(ARGV[at + 2])
    junk = junk or (not item.grace and 'grace') or nil
  end
  items[#items + 1] = item
  ids[#ids + 1] = item.id
end

local refused = unopened or (junk and { 'badargs', junk })
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'waiting', 'deadlines', 'lanes', 'done:failed', 'done:aborted', 'gone', 'pulse', 'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()
said_by_run = false

local function end_at_once(item, rec)
  rec.sp = { c = 'abort', at = now, g = 0, he = now, by = item.by, rs = item.reason, rq = item.request }
  rec.fk = nil -- An abort is no failure.
  end_unowned(item.id, rec, 'aborted', item.by)
  return 'ended', 'aborted', now, now
end

local function ask(item, rec)
  local id = item.id
  if not (rec.sp and rec.sp.rq == item.request) then
    local grace = item.grace or policy_of(rec)[8]
    if rec.sp then
      -- What a gap has given back of an earlier stop's time, this one may shorten, but not to nothing.
      allow_for_gap(rec, last_gap_at())
    end
    request_stop(id, rec, 'abort', grace, item.by, item.reason)
    rec.sp.rq = rec.sp.rq or item.request
    if rec.st == 'running' then
      enter(rec, 'aborting')
    end
  end
  local proof = proof_of_death(id, rec)
  if proof then
    reconcile(id, rec, 'abort', proof)
    return 'ended', rec.st, now, now
  end
  if item.mode == 'abandon' and is_unkillable(rec) then
    -- A repeat of this request is answered by it, not one of the abort before.
    rec.sp.rq = item.request
    local message = 'given up by ' .. item.by .. ' while these processes were alive still: ' .. rec.uk[2]
    end_failed(id, rec, { kind = 'abandoned', message = message })
    return 'ended', rec.st, now, now
  end
  index('running', math.min(rec.sp.he, now + B), id)
  save(id, rec)
  return 'requested', rec.st, int(rec.sp.he), int(rec.sp.he - T - B)
end

local function abort(item)
  local rec = load(item.id)
  if rec == false then
    return 'corrupt', '', 0, 0
  end
  if not rec or ledger.gone[item.id] then
    return 'not_found', '', 0, 0
  end
  if rec.ar and rec.ar[1] == item.request then
    return rec.ar[2] == 'aborted' and 'ended' or 'already', rec.ar[2], 0, 0
  end
  if rec.st == 'queued' or rec.st == 'scheduled' or rec.st == 'waiting' then
    return end_at_once(item, rec)
  end
  if rec.st == 'running' or rec.st == 'aborting' then
    return ask(item, rec)
  end
  if rec.sp and rec.sp.rq == item.request and (rec.st == 'aborted' or rec.fk == 'abandoned') then
    return 'ended', rec.st, int(rec.sp.he), int(rec.sp.he)
  end
  return 'already', rec.st, 0, 0
end

prefetch(task_keys(ids))
local reply = { 'ok', now }
for _, item in ipairs(items) do
  for _, value in ipairs({ abort(item) }) do
    reply[#reply + 1] = value
  end
end
commit()
return reply
