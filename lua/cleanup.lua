-- cleanup: removes ended tasks that are older than the queue keeps them.
--
-- TRANSITIONS: completed, failed, timed_out, aborted -> (gone)
-- ARGV: format limit
--   limit: at most so many tasks of each state, 1 to 256
-- DERIVED: Q:done:<state>, all keys of each removed task, Q:owner:<hash> Q:lanes Q:lane-ends:<hash> Q:gone Q:totals Q:events
-- RETURNS: {'ok', now_ms, deleted, odd, more (1 = call again)}
-- TAGS: ok unregistered format wrongtype badargs
-- RELIES ON: the age being checked in the same call that deletes; strictly older than the period
-- REPEATABLE: yes

-- INCLUDE base types known ledger notes plain policy fixed sound codec record ended place lane_row lane ending

local format, limit = ARGV[1], whole(ARGV[2], 1)

local refused = unopened or ((not limit or limit > 256) and { 'badargs', 'limit must be 1 to 256' })
  or wrong_type('done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'lanes', 'totals',
    'events')
if refused then
  return refused
end

allowed_first_write()
local deleted, odd, more = 0, 0, 0

local function clean(state)
  local old = call('ZRANGE', Q .. 'done:' .. state, '-inf', '(' .. int(now - retention[state]), 'BYSCORE', 'LIMIT', 0,
    limit)
  prefetch(task_keys(old))
  for _, id in ipairs(old) do
    local rec = load(id)
    if rec and rec.st == state and now - rec.at <= retention[state] then
      -- It ended later than the index says.
      odd = odd + 1
      index('done:' .. state, rec.at, id)
    elseif rec and rec.st == state then
      unindex('done:' .. state, id)
      discard(id, rec)
      event(id, state, '', rec.n, 'retention')
      deleted = deleted + 1
    else
      -- Not ended in this state: the index is wrong, the task is left alone. The doctor tells of it.
      odd = odd + 1
      if rec == nil or rec then
        unindex('done:' .. state, id)
        count('dropped')
      else
        index('done:' .. state, now, id)
      end
    end
  end
  if #old == limit then
    more = 1
  end
end

for state in pairs(TERMINAL) do
  clean(state)
end
commit()
return { 'ok', now, deleted, odd, more }
