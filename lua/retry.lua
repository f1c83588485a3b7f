-- retry: a person runs an ended task again: failures and reclaims start anew, the attempt goes on.
--
-- TRANSITIONS: completed, failed, timed_out, aborted -> queued
-- ARGV: format
-- ITEM: id rev
--   rev: of the end that the caller saw
-- DERIVED: Q:task:<id> Q:body:<id> Q:result:<id> Q:note:<id> Q:done:<state> Q:ready:<level> Q:gone Q:totals
--   Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: retried changed live not_found corrupt
-- RELIES ON: the first write being one that a full Redis denies, as for enqueue
-- REPEATABLE: yes; the rev that was retried last is answered `retried` again

-- INCLUDE base types known ledger notes plain policy fixed codec record ended place

local format = ARGV[1]
local items, ids, junk = {}, {}, (#ARGV - 1) % 2 ~= 0
for at = 2, #ARGV, 2 do
  items[#items + 1] = { id = ARGV[at], rev = whole(ARGV[at + 1]) }
  ids[#ids + 1] = ARGV[at]
  junk = junk or not whole(ARGV[at + 1])
end

local refused = unopened or (junk and { 'badargs', 'items come in pairs of id and rev' })
  or wrong_type('ready:urgent', 'ready:high', 'ready:normal', 'ready:low', 'done:completed', 'done:failed',
    'done:timed_out', 'done:aborted', 'gone', 'totals', 'events', 'wake')
if refused then
  return refused
end

local function queue_again(id, rec)
  local from = rec.st
  local rev = rec.rev
  -- The head names the next run now; a repeat of the last one's finish gets its answer still.
  rec.le = rec.le or (rec.inc ~= '' and { rec.run, rec.inc, from }) or nil
  place_queued(id, rec, rec.lv)
  rec.rr, rec.f, rec.c, rec.o = rev, 0, 0, ''
  rec.ar = rec.sp and rec.sp.rq and { rec.sp.rq, from } or rec.ar
  rec.fk, rec.sp, rec.un, rec.pg, rec.us = nil, nil, nil, nil, nil
  save(id, rec)
  unindex('done:' .. from, id)
  delete_key('result:' .. id)
  delete_key('note:' .. id)
  event(id, from, 'queued', rec.n, 'retry')
  count('again')
end

local function retry(item)
  local rec = load(item.id)
  if rec == false then
    return 'corrupt', ''
  end
  if not rec then
    return 'not_found', ''
  end
  if rec.rr == item.rev then
    return 'retried', rec.st
  end
  if not TERMINAL[rec.st] then
    return 'live', rec.st
  end
  if rec.rev ~= item.rev then
    return 'changed', rec.st
  end
  queue_again(item.id, rec)
  return 'retried', rec.st
end

prefetch(task_keys(ids))
local reply = { 'ok', now }
for _, item in ipairs(items) do
  local tag, state = retry(item)
  reply[#reply + 1] = tag
  reply[#reply + 1] = state
end
commit()
return reply
