-- Enqueue. ARGV: prefix, inline limit, then (id, digest or head, body) per task.
local ids, digests, bodies = {}, {}, {}
for i = 3, #ARGV, 3 do
  local n = #ids + 1
  ids[n], digests[n], bodies[n] = ARGV[i], ARGV[i + 1], ARGV[i + 2]
end
-- One EXISTS for the whole batch; only a batch with a repeat would look item by item.
if call('EXISTS', unpack(prefixed(TASK, ids))) > 0 then return { 'exists' } end
V.create(ids, digests, bodies)
call('HINCRBY', TOTALS, 'enqueued', #ids)
call('ZADD', Q .. ':wake', 1, 'm')
events('q', ids)
return #ids
