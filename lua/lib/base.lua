-- base: what every script starts with: its keys, its clock, its refusals.
--
-- KEYS[1] = Q:config always exists, KEYS[2] = Q:never never does, so that during a slot migration Redis
-- answers TRYAGAIN before the script starts instead of tearing it midway. All other keys are derived.

local FORMAT = 2
local MOST_MS = 315360000000
local CONFIG, NEVER = KEYS[1], KEYS[2]
local Q = string.sub(CONFIG, 1, -#'config' - 1)
local call, pcall_redis = redis.call, redis.pcall
-- Looked up once: in a loop over a batch each look at a global costs.
local args, byte, find, sub = ARGV, string.byte, string.find, string.sub

-- Settings of the queue, read once below, where `unopened` is decided.
local now, micros, T, B, driven
local retention = {}

local MOST_WHOLE = 9007199254740992
local LEVELS = { 'urgent', 'again', 'high', 'normal', 'low' }
local LEVEL_CODE = { urgent = 1, again = 2, high = 3, normal = 4, low = 5 }

-- Big numbers as text: `..` keeps 14 digits only, a token has 16. Making text of a number costs Redis as much as a look
-- into a small key; so the last one is kept, and constants are given to commands as text.
local last_number, last_text

local function int(n)
  if n ~= last_number then
    last_number, last_text = n, string.format('%.0f', n)
  end
  return last_text
end

-- A whole number of at least `least`, written in digits alone, or nil.
local function whole(text, least)
  local n = type(text) == 'string' and string.find(text, '^%d+$') and tonumber(text)
  return n and n >= (least or 0) and n < MOST_WHOLE and n or nil
end

-- Reads the queue's settings and the clock. `unopened` is the refusal to hand back, nil when the script may go on. No
-- function: making one costs each call.
local unopened
do
  local c = pcall_redis('HMGET', CONFIG, 'v', 'lease_ms', 'clock', 'retain_completed', 'retain_failed',
    'retain_timed_out', 'retain_aborted')
  if whole(ARGV[1]) ~= FORMAT then
    unopened = { 'badargs', 'format' }
  elseif c.err then
    unopened = { 'wrongtype', CONFIG }
  elseif not c[1] then
    unopened = { 'unregistered' }
  elseif tonumber(c[1]) ~= FORMAT then
    unopened = { 'format', c[1] }
  else
    if c[3] then
      -- Tests drive the clock; then leases carry their expiry as a value.
      driven, now, micros = true, whole(c[3]), 0
    else
      local time = call('TIME')
      micros = tonumber(time[2])
      now = tonumber(time[1]) * 1000 + math.floor(micros / 1000)
    end
    T = whole(c[2], 3)
    local completed, failed, timed_out, aborted = tonumber(c[4]), tonumber(c[5]), tonumber(c[6]), tonumber(c[7])
    if T and now and completed and failed and timed_out and aborted
      and completed >= 0 and failed >= 0 and timed_out >= 0 and aborted >= 0 then
      B = math.floor(T / 3)
      retention.completed, retention.failed, retention.timed_out, retention.aborted = completed, failed, timed_out,
        aborted
    else
      unopened = { 'wrongtype', CONFIG }
    end
  end
end

-- Redis rolls nothing back, so a key of the wrong type must be found before the first write. Most are read anyway: what
-- such a key answers is kept here as the refusal to hand back.
local misread

local function read(command, suffix, ...)
  local found = pcall_redis(command, Q .. suffix, ...)
  if type(found) == 'table' and found.err then
    misread = misread or { 'wrongtype', Q .. suffix }
    return nil
  end
  return found
end
