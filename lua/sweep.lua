-- sweep: the reaper's look at a queue: reclaims runs whose owner is dead, ends those past their hard end, records stops
-- that are due and notices of silence, ends what is past its deadline, promotes what is due, looks after lanes, forgets
-- what is old.
--
-- TRANSITIONS: running -> queued, scheduled, waiting, failed, timed_out; aborting -> aborted; scheduled -> queued, waiting,
--   timed_out; queued, waiting -> timed_out; waiting -> queued
-- ARGV: format limit
-- ITEM: dead cursor
--   limit: at most so many running tasks are looked at and so many scheduled ones promoted, 1 to 256
--   dead: an incarnation that is proved dead, with nothing of it alive: a call with such does only what lib/declare.lua says
-- DERIVED: Q:pulse Q:running Q:scheduled Q:waiting Q:deadlines Q:lanes Q:lane:<hash> Q:owner:<hash> Q:ready:<level>
--   Q:task:<id> Q:lease:<id> Q:errors:<id> Q:phases:<id> Q:done:<state>
--   Q:gone Q:waited Q:waiter:<id> Q:beat:<incarnation> Q:claim:<incarnation> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, looked, suspected, reclaimed, ended, stopped, promoted, gap (1 or 0), odd,
--   next_look_ms (ms until, at most a second), more (1 = call again)}; with items {'ok', now_ms, then per item:
--   cursor to go on with ('0' = done), looked, reclaimed}
-- TAGS: ok unregistered format wrongtype badargs
-- RELIES ON: the watch clock of lib/pulse.lua; doubt or an error is never evidence
-- REPEATABLE: yes; each look decides by the record as it stands

-- INCLUDE base types known ledger notes plain policy fixed sound codec record bounds lease ended place lane_row lane ending phase promote stop pulse failure leave outcome reclaim dead proof look late lane_watch sums settle events declare

local FORGET = 4096
local format, limit = ARGV[1], whole(ARGV[2], 1)

local refused = unopened or ((not limit or limit > 256) and { 'badargs', 'limit must be 1 to 256' }) or undeclared
  or wrong_type('ready:urgent', 'ready:again', 'ready:high', 'ready:normal', 'ready:low', 'running', 'scheduled',
    'waiting', 'deadlines', 'lanes', 'done:completed', 'done:failed', 'done:timed_out', 'done:aborted', 'gone', 'pulse',
    'totals', 'events', 'wake')
if refused then
  return refused
end

allowed_first_write()
said_by_run = false
if declared[1] then
  return declare_dead(limit)
end
pulse = read_pulse()
local gap = advance(pulse)
pulse.settled = settle(pulse.settled)

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
    count('dropped')
  else
    look(id, rec)
  end
end

local late = end_what_is_late(limit)
local ripe, promoted, odd = promote(limit)
seen.promoted, seen.odd = promoted, seen.odd + odd
local lanes = look_after_lanes(pulse.step)

-- Impossible scores: further ahead than any look can be.
for _, id in ipairs(call('ZRANGE', Q .. 'running', '(' .. int(now + T + B), '+inf', 'BYSCORE', 'LIMIT', 0, limit)) do
  look_again(id, now + B)
end
mend_impossible(limit)

call('HSET', Q .. 'pulse', 'last', int(now), 'gap', int(pulse.gap), 'gap_at', int(pulse.gap_at), 'watch',
  int(pulse.watch), 'lanes', lanes, 'settled', int(pulse.settled))
local old = math.min(FORGET, call('ZCOUNT', Q .. 'gone', '-inf', int(now - GONE_MS)))
if old > 0 then
  call('ZREMRANGEBYRANK', Q .. 'gone', 0, old - 1)
end
trim_events()
commit()

local sleep = math.min(1000, math.floor(B / 2))
for _, zset in ipairs({ 'running', 'deadlines' }) do
  local first = call('ZRANGE', Q .. zset, 0, 0, 'WITHSCORES')
  if first[2] then
    sleep = math.max(0, math.min(sleep, tonumber(first[2]) - now))
  end
end
return { 'ok', now, seen.looked, seen.suspected, seen.reclaimed, seen.ended, seen.stopped, seen.promoted,
  gap and 1 or 0, seen.odd, sleep, (#due == limit or ripe == limit or late == limit or old == FORGET) and 1 or 0 }
