-- delete: a person removes an ended task with all it has.
--
-- TRANSITIONS: completed, failed, timed_out, aborted -> (gone)
-- ARGV: format
-- ITEM: id rev
--   rev: of the end that the caller saw
-- DERIVED: all keys of the task, Q:done:<state> Q:owner:<hash> Q:lanes Q:lane-ends:<hash> Q:gone Q:totals Q:events
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: deleted changed live not_found corrupt
-- RELIES ON: a live task never being deleted
-- REPEATABLE: yes; an id removed less than a minute ago is answered `deleted` again

-- INCLUDE base types known ledger notes plain policy fixed sound codec record ended place lane_row lane ending

local format = ARGV[1]
local items, ids, junk = {}, {}, (#ARGV - 1) % 2 ~= 0
for at = 2, #ARGV, 2 do
  items[#items + 1] = { id = ARGV[at], rev = whole(ARGV[at + 1]) }
  ids[#ids + 1] = ARGV[at]
  junk = junk or not whole(ARGV[at + 1])
end

local refused = unopened or (junk and { 'badargs', 'items come in pairs of id and rev' })
  or wrong_type('done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'lanes', 'totals',
    'events')
if refused then
  return refused
end

allowed_first_write()

local function delete(item)
  local id = item.id
  local rec = load(id)
  if rec == false then
    return 'corrupt', ''
  end
  if not rec or ledger.gone[id] then
    return (ledger.gone[id] or is_gone(id)) and 'deleted' or 'not_found', ''
  end
  if not TERMINAL[rec.st] then
    return 'live', rec.st
  end
  if rec.rev ~= item.rev then
    return 'changed', rec.st
  end
  unindex('done:' .. rec.st, id)
  event(id, rec.st, '', rec.n, 'deleted')
  rec.at = now
  discard(id, rec)
  return 'deleted', rec.st
end

prefetch(task_keys(ids))
local reply = { 'ok', now }
for _, item in ipairs(items) do
  local tag, state = delete(item)
  reply[#reply + 1] = tag
  reply[#reply + 1] = state
end
commit()
return reply
