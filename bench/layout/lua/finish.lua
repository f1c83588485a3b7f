-- Finish. ARGV: prefix, inline limit, incarnation, mode (key | inline | discard), then (id, run, result) per task.
INC, MODE = ARGV[3], ARGV[4]
local ids, runs, results = {}, {}, {}
for i = 5, #ARGV, 3 do
  local n = #ids + 1
  ids[n], runs[n], results[n] = ARGV[i], ARGV[i + 1], ARGV[i + 2]
end

-- V.check compares fences and returns the accepted ids and their records; no writes before this line.
local done, records, kept = V.check(ids, runs, results)
if #done == 0 then return 0 end
call('ZREM', RUNNING, unpack(done))
local gone = prefixed(LEASE, done)
local scored = {}
for i = 1, #done do scored[2 * i - 1], scored[2 * i] = now_text, done[i] end
if MODE == 'discard' then
  for i = 1, #done do V.keys(gone, done[i], records[i]) end
  call('DEL', unpack(gone))
  call('ZADD', Q .. ':gone', unpack(scored))
else
  call('DEL', unpack(gone))
  V.finish(done, records, kept)
  if MODE == 'key' then
    local sets = {}
    for i = 1, #done do sets[2 * i - 1], sets[2 * i] = RESULT .. done[i], kept[i] end
    call('MSET', unpack(sets))
  end
  call('ZADD', Q .. ':done:completed', unpack(scored))
end
if call('EXISTS', unpack(prefixed(WAITER, done))) > 0 then redis.pcall('PUBLISH', Q .. ':ended', done[1]) end
call('HINCRBY', TOTALS, 'completed', #done)
events('c', done)
return #done
