-- retry: a person runs an ended task again: failures and reclaims start anew, the attempt goes on.
--
-- TRANSITIONS: completed, failed, timed_out, aborted -> queued, waiting
-- ARGV: format
-- ITEM: id rev mode
--   rev: of the end that the caller saw
--   mode: keep the checkpoint, fresh (drop it), or resume (refuse without one)
-- DERIVED: Q:task:<id> Q:body:<id> Q:result:<id> Q:note:<id> Q:checkpoint:<id> Q:done:<state> Q:ready:<level> Q:waiting
--   Q:deadlines Q:lanes Q:lane:<hash> Q:owner:<hash> Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: retried changed live no_checkpoint not_found corrupt
-- RELIES ON: the first write being one that a full Redis denies, as for enqueue
-- REPEATABLE: yes; the rev that was retried last is answered `retried` again

-- INCLUDE base types known ledger notes plain policy fixed sound codec record ended place lane_row lane

local format = ARGV[1]
local MODES = { keep = true, fresh = true, resume = true }
local items, ids, junk = {}, {}, (#ARGV - 1) % 3 ~= 0
for at = 2, #ARGV, 3 do
  items[#items + 1] = { id = ARGV[at], rev = whole(ARGV[at + 1]), mode = ARGV[at + 2] }
  ids[#ids + 1] = ARGV[at]
  junk = junk or not whole(ARGV[at + 1]) or not MODES[ARGV[at + 2]]
end

local refused = unopened or (junk and { 'badargs', 'items come in groups of id, rev and mode' })
  or wrong_type('waiting', 'deadlines', 'lanes', 'ready:urgent', 'ready:high', 'ready:normal', 'ready:low', 'done:completed', 'done:failed',
    'done:timed_out', 'done:aborted', 'gone', 'totals', 'events', 'wake')
if refused then
  return refused
end

-- What begins anew: the bounds that are told from the enqueue on, and the budgets.
local function renew_bounds(id, rec)
  rec.dl = rec.dr and now + rec.dr or rec.dl
  if rec.dl and rec.dl <= now then
    -- The person who retries it knows that its time has passed.
    rec.dl = nil
  elseif rec.dl then
    index('deadlines', rec.dl, id)
  end
  for _, budget in pairs(rec.bu or {}) do
    budget[2] = 0
  end
end

local function queue_again(id, rec, mode)
  local from = rec.st
  local rev = rec.rev
  -- The head names the next run now; a repeat of the last one's finish gets its answer still.
  rec.le = rec.le or (rec.inc ~= '' and { rec.run, rec.inc, from }) or nil
  place_ready(id, rec, rec.lv)
  rec.rr, rec.f, rec.c, rec.o = rev, 0, 0, ''
  rec.ar = rec.sp and rec.sp.rq and { rec.sp.rq, from } or rec.ar
  rec.fk, rec.sp, rec.un, rec.pg, rec.us, rec.rc = nil, nil, nil, nil, nil, nil
  if mode == 'fresh' then
    rec.ck = nil
    delete_key('checkpoint:' .. id)
  end
  renew_bounds(id, rec)
  save(id, rec)
  unindex('done:' .. from, id)
  delete_key('result:' .. id)
  delete_key('note:' .. id)
  event(id, from, rec.st, rec.n, 'retry')
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
  if item.mode == 'resume' and not rec.ck then
    return 'no_checkpoint', rec.st
  end
  queue_again(item.id, rec, item.mode)
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
