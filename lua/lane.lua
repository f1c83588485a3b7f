-- lane: sets how many tasks of a lane may run at a time, and lets those go that this admits.
--
-- TRANSITIONS: waiting -> queued
-- ARGV: format lane limit
--   lane: its text, 1 to 256 bytes; limit: 1 to 256
-- DERIVED: Q:lanes Q:lane:<hash> Q:task:<id> Q:waiting Q:ready:<level> Q:owner:<hash> Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, limit before, admitted}
-- TAGS: ok unregistered format wrongtype badargs
-- RELIES ON: who was let go staying so: a lower limit holds for those that come
-- REPEATABLE: yes

-- INCLUDE base types known ledger notes plain policy fixed sound codec record place lane_row lane

local MOST_AT_A_TIME, LANE_BYTES = 256, 256
local format, text, limit = ARGV[1], ARGV[2], whole(ARGV[3], 1)

local refused = unopened
  or ((not limit or limit > MOST_AT_A_TIME or text == '' or #text > LANE_BYTES)
    and { 'badargs', 'lane: 1 to 256 bytes; limit: 1 to 256' })
  or wrong_type('ready:urgent', 'ready:high', 'ready:normal', 'ready:low', 'waiting', 'lanes', 'totals', 'events', 'wake')
if refused then
  return refused
end

local hash = hash_of(text)
local before, most = row_of(hash)
local members = pcall_redis('ZCARD', lane_key(hash))
set_row(hash, limit, math.min(most, tonumber(members) or 0), text)
local admitted = admit(hash, true)
forget_lane(hash)
commit()
return { 'ok', now, before, admitted }
