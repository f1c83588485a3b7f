-- sweep: the reaper's look at a queue: reclaims runs whose owner is dead, ends those past their hard end,
-- records stops that are due, promotes what is due, forgets what is old.
--
-- TRANSITIONS: running -> queued, scheduled, failed, timed_out; aborting -> aborted; scheduled -> queued
-- ARGV: format limit
--   limit: at most so many running tasks are looked at and so many scheduled ones promoted, 1 to 256
-- DERIVED: Q:pulse Q:running Q:scheduled Q:ready:<level> Q:task:<id> Q:lease:<id> Q:errors:<id> Q:done:<state>
--   Q:gone Q:waited Q:waiter:<id> Q:beat:<incarnation> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, looked, suspected, reclaimed, ended, stopped, promoted, gap (1 or 0), odd,
--   next_look_ms (ms until, at most a second), more (1 = call again)}
-- TAGS: ok unregistered format wrongtype badargs
-- RELIES ON: the watch clock of lib/pulse.lua; doubt or an error is never evidence
-- REPEATABLE: yes; each look decides by the record as it stands

-- INCLUDE base types known ledger notes plain policy fixed codec record lease ended place promote stop pulse outcome reclaim events

local FORGET = 4096
local format, limit = ARGV[1], whole(ARGV[2], 1)

local refused = unopened or ((not limit or limit > 256) and { 'badargs', 'limit must be 1 to 256' })
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'pulse', 'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()
said_by_run = false
local pulse = read_pulse()
local gap = advance(pulse)
local seen = { looked = 0, suspected = 0, reclaimed = 0, ended = 0, stopped = 0, promoted = 0, odd = 0 }

local function saw(what)
  seen[what] = seen[what] + 1
end

local function look_again(id, at)
  index('running', math.max(now + 1, math.min(at, now + T + B)), id)
end

-- The run's next bound: its hard end, or the end of its run timeout.
local function bound_of(rec)
  if rec.sp then
    return rec.sp.he
  end
  local timeout = policy_of(rec)[7]
  return timeout > 0 and rec.bg + timeout or now + T
end

-- Its owner did not obey in time, or could not.
local function end_past_hard_end(id, rec)
  local message = 'the run did not end within its grace (' .. rec.sp.c .. ')'
  end_stopped(id, rec, { kind = 'lease_expired', message = message })
  saw('ended')
end

local function judge_missing_lease(id, rec)
  if not rec.ml then
    rec.ml = pulse.watch
    saw('suspected')
  end
  local left = suspicion_left(rec, pulse)
  if left == 0 then
    saw('reclaimed')
    return reclaim(id, rec)
  end
  save(id, rec)
  look_again(id, math.min(now + math.min(left, B), rec.sp and rec.sp.he or now + B))
end

local function look(id, rec)
  local changed = allow_for_gap(rec, pulse.gap_at)
  if past_run_timeout(rec) then
    request_stop(id, rec, 'run_timeout', policy_of(rec)[8], 'leasehold')
    saw('stopped')
    changed = true
  end
  if rec.sp and now >= rec.sp.he then
    return end_past_hard_end(id, rec)
  end
  local left = lease_left(id, rec)
  if left == 0 then
    return judge_missing_lease(id, rec)
  end
  if rec.ml then
    rec.ml = nil
    changed = true
  end
  if changed then
    save(id, rec)
  end
  look_again(id, math.min(now + left, bound_of(rec)))
end

local due = call('ZRANGE', Q .. 'running', '-inf', int(now), 'BYSCORE', 'LIMIT', 0, limit)
prefetch(task_keys(due))
for _, id in ipairs(due) do
  local rec = load(id)
  saw('looked')
  if rec == false then
    saw('odd')
    look_again(id, now + B)
  elseif not rec or (rec.st ~= 'running' and rec.st ~= 'aborting') then
    saw('odd')
    unindex('running', id)
    event(id, 'running', '', 0, 'dropped: no record is running')
  else
    look(id, rec)
  end
end

local ripe, promoted, odd = promote(limit)
seen.promoted, seen.odd = promoted, seen.odd + odd

-- Impossible scores: further ahead than any look can be.
for _, id in ipairs(call('ZRANGE', Q .. 'running', '(' .. int(now + T + B), '+inf', 'BYSCORE', 'LIMIT', 0, limit)) do
  look_again(id, now + B)
end

call('HSET', Q .. 'pulse', 'last', int(now), 'gap', int(pulse.gap), 'gap_at', int(pulse.gap_at), 'watch',
  int(pulse.watch))
local old = math.min(FORGET, call('ZCOUNT', Q .. 'gone', '-inf', int(now - GONE_MS)))
if old > 0 then
  call('ZREMRANGEBYRANK', Q .. 'gone', 0, old - 1)
end
trim_events()
commit()

local next_look = math.min(1000, math.floor(B / 2))
local first = call('ZRANGE', Q .. 'running', 0, 0, 'WITHSCORES')
if first[2] then
  next_look = math.max(0, math.min(next_look, tonumber(first[2]) - now))
end
return { 'ok', now, seen.looked, seen.suspected, seen.reclaimed, seen.ended, seen.stopped, seen.promoted,
  gap and 1 or 0, seen.odd, next_look, (#due == limit or ripe == limit or old == FORGET) and 1 or 0 }
