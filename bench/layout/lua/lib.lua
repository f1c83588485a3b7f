-- Shared head of every measured script. ARGV[1] = key prefix of the queue.
local call, pack, unpack_rec = redis.call, cmsgpack.pack, cmsgpack.unpack
local Q = ARGV[1]
local READY, RUNNING, TOTALS = Q .. ':ready:normal', Q .. ':running', Q .. ':totals'
local TASK, BODY, LEASE = Q .. ':task:', Q .. ':body:', Q .. ':lease:'
local RESULT, WAITER = Q .. ':result:', Q .. ':waiter:'
local MA, RT = 5, 86400000 -- max_attempts and run timeout as a client would send them
local INC, WORKER, MODE    -- set by claim and finish from their arguments
local V = {}               -- the variant: create, start, check, finish, keys

if not call('HGET', Q .. ':config', 'format') then return { 'unregistered' } end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%.0f', now)

-- One event entry for up to 50 transitions of one kind.
local function events(kind, ids)
  for i = 1, #ids, 50 do
    call('XADD', Q .. ':events', 'MAXLEN', '~', '4000', '*', 'e',
      pack(kind, now, table.concat(ids, '\n', i, math.min(i + 49, #ids))))
  end
end

local function prefixed(prefix, ids)
  local keys = {}
  for i = 1, #ids do keys[i] = prefix .. ids[i] end
  return keys
end

local function write_all(command, args)
  if #args > 0 then call(command, unpack(args)) end
end
