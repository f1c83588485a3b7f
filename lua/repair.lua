-- repair: puts tasks back where their records say that they are; closes runs whose owner is proven dead. What the doctor
-- found is looked at again here, in the step that mends it.
--
-- TRANSITIONS: running -> queued, scheduled, waiting, failed, timed_out; aborting -> aborted; waiting -> queued
-- ARGV: format by
--   by: who asks, for people
-- ITEM: id
-- DERIVED: all keys of the task, Q:running Q:scheduled Q:waiting Q:deadlines Q:done:<state> Q:ready:<level> Q:lanes
--   Q:lane:<hash> Q:owner:<hash> Q:pulse Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, what was done}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: sound repaired removed corrupt
-- RELIES ON: the record being right where a place differs; a run being closed by the proof of the sweep alone
-- REPEATABLE: yes; what is sound is left alone

-- INCLUDE base types known ledger notes plain policy fixed sound codec record bounds lease ended place lane_row lane ending phase stop pulse failure leave outcome reclaim mend

local BY_BYTES = 64
local format, by = ARGV[1], ARGV[2]

local refused = unopened
  or ((not by or by == '' or #by > BY_BYTES or #ARGV > 102) and { 'badargs', 'by: 1 to 64 bytes; at most 100 ids' })
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'waiting', 'deadlines', 'lanes', 'done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'pulse',
    'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()
said_by_run = false

-- Nothing of a task stays without its record.
local function remove_rest(id)
  local rows, removed = 0, 0
  for _, place in ipairs({ 'running', 'scheduled', 'waiting', 'deadlines', 'done:completed', 'done:failed',
    'done:timed_out', 'done:aborted' }) do
    rows = rows + call('ZREM', Q .. place, id)
  end
  for _, prefix in ipairs(KEYS_OF_A_TASK) do
    if prefix ~= 'waiter:' then
      removed = removed + call('UNLINK', Q .. prefix .. id)
    end
  end
  if rows + removed == 0 then
    return 'sound', ''
  end
  if rows > 0 then
    -- It was counted as one that is there still.
    count('gone')
  end
  event(id, '', '', 0, 'dropped: repaired, it had no record')
  return 'removed', 'rows and keys of a task without a record: ' .. int(rows + removed)
end

local function repair(id)
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  elseif not rec or ledger.gone[id] then
    return remove_rest(id)
  end
  local did = mend(id, rec)
  if (rec.st == 'running' or rec.st == 'aborting') and rec.ml and lease_left(id, rec) == 0
    and suspicion_left(rec, read_pulse()) == 0 then
    reconcile(id, rec, by, 'its lease expired')
    return 'repaired', 'its run was closed: its lease expired'
  end
  if #did == 0 then
    return 'sound', ''
  end
  local what = table.concat(did, ', ')
  rec.rc = { at = now, by = by, why = what }
  save(id, rec)
  event(id, rec.st, rec.st, rec.n, 'repaired: ' .. what)
  return 'repaired', what
end

local reply = { 'ok', now }
for at = 3, #ARGV do
  local tag, what = repair(ARGV[at])
  reply[#reply + 1] = tag
  reply[#reply + 1] = what
end
commit()
return reply
