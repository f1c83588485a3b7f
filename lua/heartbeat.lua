-- heartbeat: renews the leases of a worker's runs and carries the answer back: go on, stop, or you lost it.
--
-- TRANSITIONS: none (it may record the stop of a run past its run timeout)
-- ARGV: format incarnation
-- ITEM: id run
-- DERIVED: Q:task:<id> Q:lease:<id> Q:beat:<incarnation> Q:gone Q:pulse Q:totals Q:events
-- RETURNS: {'ok', now_ms, lease_ms, then per item: tag, cause or state, hard_end_ms, by;
--   or once for all where every item is ok}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok stop ended gone lost corrupt
-- RELIES ON: the record, not the lease, saying who owns a task
-- REPEATABLE: yes; a run whose lease lapsed but which the record still names takes its lease up again

local format, inc = ARGV[1], ARGV[2]
local FIRST, FIELDS = 3, 2

-- INCLUDE base known plain plain_end

-- What few beats need.
local function open_long_way()
  -- INCLUDE types moves ledger policy fixed codec record lease stop pulse beat_rare
  return { beat = beat, commit = commit, refused = wrong_type('gone', 'pulse', 'totals', 'events') }
end

local refused = open(format)
  or ((not inc or (#args - FIRST + 1) % FIELDS ~= 0) and { 'badargs', 'items come in pairs of id and run' })
if refused then
  return refused
end
local keys = task_keys(args, FIRST, FIELDS)
prefetch(keys)

-- The usual beat: nothing rare is known of the task, and its run timeout is the default and far away.
local plain, plain_beats = {}, 0
for i, key in ipairs(keys) do
  plain[i] = not driven and plain_alive(known[key], args[FIRST + 1 + (i - 1) * FIELDS])
  plain_beats = plain_beats + (plain[i] and 1 or 0)
end
local long = plain_beats < #keys and open_long_way() or nil
if not long then
  read('ZCARD', 'gone')
end
refused = long and long.refused or misread
if refused then
  return refused
end

allowed_first_write()
local LEASE, T_TEXT = Q .. 'lease:', int(T)
if plain_beats > 0 then
  call('SET', Q .. 'beat:' .. inc, int(now), 'PX', int(2 * T))
end
local reply, all_ok = { 'ok', now, T }, true
for i = 1, #keys do
  local at = FIRST + (i - 1) * FIELDS
  local id, run = args[at], args[at + 1]
  local tag, what, hard_end_ms, by = 'ok', '', 0, ''
  if plain[i] then
    call('SET', LEASE .. id, run .. ' ' .. inc, 'PX', T_TEXT)
  else
    tag, what, hard_end_ms, by = long.beat(id, run)
    all_ok = all_ok and tag == 'ok'
  end
  local n = 4 * i - 1
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = tag, what, hard_end_ms, by
end
if long then
  long.commit()
end
if all_ok and #keys > 1 then
  return { 'ok', now, T, 'ok', '', 0, '' }
end
return reply
