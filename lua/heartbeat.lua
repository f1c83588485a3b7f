-- heartbeat: renews the leases of a worker's runs and carries the answer back: go on, stop, or you lost it.
--
-- TRANSITIONS: none (it may record the stop of a run past a bound, and notices of silence)
-- ARGV: format incarnation
-- ITEM: id run
--   run: with a `!` in front where the worker itself stops it: then the record is asked, whatever the key says
-- DERIVED: Q:task:<id> Q:lease:<id> Q:beat:<incarnation> Q:gone Q:pulse Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, then per item: tag, cause or state, hard_end_ms, by;
--   or once for all where every item is ok}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok stop ended gone lost corrupt
-- RELIES ON: the record, not the lease, saying who owns a task; a key that holds a run's bare fence being gone or changed
--   with all that a heartbeat has to tell
-- REPEATABLE: yes; a run whose lease lapsed but which the record still names takes its lease up again

local format, inc = ARGV[1], ARGV[2]
local FIRST, FIELDS = 3, 2

-- INCLUDE base known plain plain_end

-- What few beats need.
local function open_long_way()
  -- INCLUDE types ledger notes policy fixed sound codec record bounds lease stop pulse beat_rare
  return { beat = beat, commit = commit, refused = wrong_type('gone', 'pulse', 'totals', 'events') }
end

local refused = unopened
  or ((not inc or (#args - FIRST + 1) % FIELDS ~= 0) and { 'badargs', 'items come in pairs of id and run' })
if refused then
  return refused
end
-- The heartbeat key tells most: where it holds the bare fence, the run is the task's and nobody asks it to stop, for every
-- script that changes that changes the key. Else the record is asked. A driven clock keeps more in the key.
local LEASE = Q .. 'lease:'
local runs, run_of, lease_keys, fences = 0, {}, {}, {}
for at = FIRST, #args, FIELDS do
  local run = args[at + 1]
  local stops = byte(run) == 33
  runs = runs + 1
  run_of[runs] = stops and sub(run, 2) or run
  lease_keys[runs], fences[runs] = LEASE .. args[at], not stops and run .. ' ' .. inc
end
local held = runs > 0 and runs <= SLICE and not driven and call('MGET', unpack(lease_keys)) or {}
local asked, task_of = {}, {}
for i = 1, runs do
  if not fences[i] or held[i] ~= fences[i] then
    task_of[i] = TASK .. args[FIRST + (i - 1) * FIELDS]
    asked[#asked + 1] = task_of[i]
  end
end
prefetch(asked)
local fresh, rare = {}, false
for i, key in pairs(task_of) do
  fresh[i] = not driven and fences[i] and plain_alive(known[key], run_of[i])
  rare = rare or not fresh[i]
end
local long = rare and open_long_way() or nil
if not long then
  read('ZCARD', 'gone')
end
refused = long and long.refused or misread
if refused then
  return refused
end

call('DEL', NEVER)
local t_text, renewed = int(T), nil
local reply, all_ok = { 'ok', now, T }, true
for i = 1, runs do
  local tag, what, hard_end_ms, by = 'ok', '', 0, ''
  if not task_of[i] then
    call('PEXPIRE', lease_keys[i], t_text)
    renewed = renewed or now
  elseif fresh[i] then
    call('SET', lease_keys[i], fences[i], 'PX', t_text)
    renewed = math.max(renewed or now, fresh[i])
  else
    tag, what, hard_end_ms, by = long.beat(args[FIRST + (i - 1) * FIELDS], run_of[i])
    all_ok = all_ok and tag == 'ok'
  end
  local n = 4 * i - 1
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = tag, what, hard_end_ms, by
end
if renewed then
  -- It only grows: a clock that steps back must not make a run look younger than its key.
  local before = tonumber(pcall_redis('GET', Q .. 'beat:' .. inc) or 0) or 0
  call('SET', Q .. 'beat:' .. inc, int(math.max(before, renewed)), 'PX', int(2 * T))
end
if long then
  long.commit()
end
if all_ok and runs > 1 then
  return { 'ok', now, T, 'ok', '', 0, '' }
end
return reply
