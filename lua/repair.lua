-- repair: puts tasks back where their records say that they are; closes runs whose owner is proven dead; removes rows that
-- stand for nothing. What the doctor found is looked at again here, in the step that mends it.
--
-- TRANSITIONS: running -> queued, scheduled, waiting, failed, timed_out; aborting -> aborted; waiting -> queued
-- ARGV: format by
--   by: who asks, for people
-- ITEM: id where
--   where: '' for the task itself; `ready:<level> <entry>`, `owner:<hash>` or `lane-ends:<hash>` for a row there that may not
--     be its; `lane:<hash>` for such a row and the lane as a whole, with all tasks mended before; `totals`, alone in its
--     call, for the sums of the queue. The id is '' where the row names none
-- DERIVED: all keys of the task, Q:running Q:scheduled Q:waiting Q:deadlines Q:done:<state> Q:ready:<level> Q:lanes
--   Q:lane:<hash> Q:lane-ends:<hash> Q:owner:<hash> Q:claim:<incarnation> Q:pulse Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, what was done, the lane (hash or '') that is to be looked at after all tasks}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: sound repaired removed corrupt
-- RELIES ON: the record being right where a place differs; a run being closed by the proof of the sweep alone
-- REPEATABLE: yes; what is sound is left alone

-- INCLUDE base types known ledger notes plain policy fixed sound codec record bounds lease ended place lane_row lane ending phase stop pulse failure leave outcome reclaim dead proof lane_mend mend sums mend_rows

local BY_BYTES, MOST_ITEMS = 64, 100
local format, by = ARGV[1], ARGV[2]
local items = {}
for at = 3, #ARGV, 2 do
  items[#items + 1] = { ARGV[at], ARGV[at + 1] }
end

local function are_sound()
  for _, item in ipairs(items) do
    if not item[2] or not is_where(item[2]) or (item[2] == 'totals' and #items > 1) then
      return false
    end
  end
  return by and by ~= '' and #by <= BY_BYTES and #items <= MOST_ITEMS
end

local refused = unopened
  or (not are_sound() and { 'badargs', 'by: 1 to 64 bytes; at most 100 items of id and where' })
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'waiting', 'deadlines', 'lanes', 'done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'pulse',
    'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()
said_by_run = false

local function repair(id)
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  elseif not rec or ledger.gone[id] then
    return remove_rest(id)
  end
  local did, hash = mend(id, rec)
  local proof = (rec.st == 'running' or rec.st == 'aborting') and proof_of_death(id, rec)
  if proof then
    reconcile(id, rec, by, proof)
    return 'repaired', 'its run was closed: ' .. proof, hash
  end
  if #did == 0 then
    return 'sound', '', hash
  end
  local what = table.concat(did, ', ')
  rec.rc = { at = now, by = by, why = what }
  save(id, rec)
  event(id, rec.st, rec.st, rec.n, 'repaired: ' .. what)
  return 'repaired', what, hash
end

local reply = { 'ok', now }
for _, item in ipairs(items) do
  local tag, what, hash
  if item[2] == '' then
    tag, what, hash = repair(item[1])
  else
    tag, what = mend_row_at(item[1], item[2])
  end
  reply[#reply + 1] = tag
  reply[#reply + 1] = what
  reply[#reply + 1] = hash or ''
end
commit()
return reply
