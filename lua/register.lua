-- register: makes a queue known: its format, its lease, what it keeps of ended tasks, its pulse.
--
-- TRANSITIONS: none
-- ARGV: format lease_ms retain_completed_ms retain_failed_ms retain_timed_out_ms retain_aborted_ms
-- DERIVED: Q:config Q:pulse
-- RETURNS: {'ok', lease_ms, made (1 = by this call)}
-- TAGS: ok format wrongtype badargs
-- RELIES ON: nothing; it is the first call on a queue
-- REPEATABLE: yes; a queue that exists keeps its settings and answers them

-- INCLUDE base types

local format, lease_ms = ARGV[1], whole(ARGV[2], 1)
local completed, failed, timed_out, aborted = whole(ARGV[3]), whole(ARGV[4]), whole(ARGV[5]), whole(ARGV[6])

local refused = unopened
if refused and refused[1] ~= 'unregistered' then
  return refused
end
if not refused then
  return { 'ok', T, 0 }
end
if not lease_ms or lease_ms < 1000 or lease_ms > 600000
  or not (completed and failed and timed_out and aborted) then
  return { 'badargs', 'lease_ms must be 1000 to 600000, retention a whole number of ms' }
end
local wrong = wrong_type('pulse')
if wrong then
  return wrong
end

local time = call('TIME')
now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
call('HSET', CONFIG, 'v', FORMAT, 'lease_ms', int(lease_ms), 'retain_completed', int(completed),
  'retain_failed', int(failed), 'retain_timed_out', int(timed_out), 'retain_aborted', int(aborted))
call('HSETNX', Q .. 'pulse', 'last', int(now))
return { 'ok', lease_ms, 1 }
