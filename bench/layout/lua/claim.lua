-- Claim. ARGV: prefix, inline limit, incarnation, claim number, worker, count. Returns a flat list: the first task's token
-- (the next ones count up from it), then id, run, attempt, body of each.
INC, WORKER = ARGV[3], ARGV[5]
local CLAIM = Q .. ':claim:' .. INC
local last = call('GET', CLAIM)
if last and unpack_rec(last) >= tonumber(ARGV[4]) then return { 'repeat' } end
local entries = call('XRANGE', READY, '-', '+', 'COUNT', ARGV[6])
if #entries == 0 then return {} end
local token = math.max((tonumber(call('GET', Q .. ':token')) or 0) + 1, now * 1000)
local ms, seq = entries[#entries][1]:match('^(%d+)-(%d+)$')
local trim = ms .. '-' .. (seq + 1)

local ids, answer = V.start(entries, token, trim)

local look, running, lease = string.format('%.0f', now + 20000), {}, nil
for i = 1, #ids do
  lease = answer[4 * i - 1] .. ' ' .. INC
  call('SET', LEASE .. ids[i], lease, 'PX', '15000')
  running[2 * i - 1], running[2 * i] = look, ids[i]
end
call('ZADD', RUNNING, unpack(running))
call('SET', Q .. ':token', string.format('%.0f', token + #ids))
call('SET', CLAIM, pack(tonumber(ARGV[4]), table.concat(ids, '\n')), 'PX', '86400000')
call('HINCRBY', TOTALS, 'claimed', #ids)
if call('XLEN', READY) > 0 then call('ZADD', Q .. ':wake', 1, 'm') end
events('r', ids)
return answer
