-- heartbeat: renews the leases of a worker's runs and carries the answer back: go on, stop, or you lost it.
--
-- TRANSITIONS: none (it may record the stop of a run past its run timeout)
-- ARGV: format incarnation
-- ITEM: id run
-- DERIVED: Q:task:<id> Q:lease:<id> Q:gone Q:pulse Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, then per item: tag, cause or state, hard_end_ms, by}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok stop ended gone lost corrupt
-- RELIES ON: the record, not the lease, saying who owns a task
-- REPEATABLE: yes; a run whose lease lapsed but which the record still names takes its lease up again

-- INCLUDE base types known moves ledger plain policy fixed codec record lease stop pulse

local format, inc = ARGV[1], ARGV[2]
local items, ids = {}, {}
for at = 3, #ARGV, 2 do
  items[#items + 1] = { id = ARGV[at], run = ARGV[at + 1] }
  ids[#ids + 1] = ARGV[at]
end

local refused = open(format)
  or ((not inc or (#ARGV - 2) % 2 ~= 0) and { 'badargs', 'items come in pairs of id and run' })
  or wrong_type('gone', 'pulse', 'totals', 'events')
if refused then
  return refused
end

allowed_first_write()
local reply = { 'ok', now, T }

local function answer(tag, what, hard_end_ms, by)
  reply[#reply + 1] = tag
  reply[#reply + 1] = what or ''
  reply[#reply + 1] = hard_end_ms or 0
  reply[#reply + 1] = by or ''
end

-- Past its hard end a run is renewed no more, but for a gap that the stop could not know of.
local function may_renew(rec)
  if now < rec.sp.he then
    return true
  end
  local p = read_pulse()
  advance(p)
  return allow_for_gap(rec, p.gap_at) and now < rec.sp.he
end

local function beat(id, rec)
  local changed = rec.ml ~= nil
  rec.ml = nil
  if past_run_timeout(rec) then
    request_stop(id, rec, 'run_timeout', policy_of(rec)[8], 'leasehold')
    changed = true
  end
  local sp = rec.sp
  if not sp then
    lease(id, rec, T)
  else
    local ends = sp.he
    if may_renew(rec) then
      lease(id, rec, math.max(1, math.min(T, sp.he - now)))
    end
    changed = changed or sp.he ~= ends
  end
  if changed then
    save(id, rec)
  end
  if sp then
    answer('stop', sp.c, sp.he, sp.by)
  else
    answer('ok')
  end
end

prefetch(task_keys(ids))
for _, item in ipairs(items) do
  local rec = load(item.id)
  if rec == false then
    answer('corrupt')
  elseif not rec then
    answer(is_gone(item.id) and 'gone' or 'lost')
  elseif owns(rec, item.run, inc) then
    beat(item.id, rec)
  else
    local state = ended_as(rec, item.run, inc)
    answer(state and 'ended' or 'lost', state)
  end
end
commit()
return reply
