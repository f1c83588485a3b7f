-- base: what every script starts with: its keys, its clock, its refusals.
--
-- KEYS[1] = Q:config always exists, KEYS[2] = Q:never never does, so that during a slot migration Redis
-- answers TRYAGAIN before the script starts instead of tearing it midway. All other keys are derived.

local FORMAT = 1
local MOST_MS = 315360000000
local CONFIG, NEVER = KEYS[1], KEYS[2]
local Q = string.sub(CONFIG, 1, -#'config' - 1)
local call, pcall_redis = redis.call, redis.pcall
-- Looked up once: in a loop over a batch each look at a global costs.
local args, byte, find, sub = ARGV, string.byte, string.find, string.sub

-- Settings of the queue, filled in by `open`.
local now, micros, T, B, driven
local retention = {}

local MOST_WHOLE = 9007199254740992
local ENDED = { 'completed', 'failed', 'timed_out', 'aborted' }
local LEVELS = { 'urgent', 'again', 'high', 'normal', 'low' }
local LEVEL_CODE = { urgent = 1, again = 2, high = 3, normal = 4, low = 5 }

-- Big numbers as text: `..` keeps 14 digits only, a token has 16.
local function int(n)
  return string.format('%.0f', n)
end

-- A whole number of at least `least`, written in digits alone, or nil.
local function whole(text, least)
  local n = type(text) == 'string' and string.find(text, '^%d+$') and tonumber(text)
  return n and n >= (least or 0) and n < MOST_WHOLE and n or nil
end

-- A duration in an argument, at most ten years, or nil.
local function duration(text)
  local ms = whole(text)
  return ms and math.min(ms, MOST_MS)
end

-- Tests drive the clock through the config's `clock` field; then leases carry their expiry as a value.
local function read_clock(clock)
  if clock then
    driven = true
    now, micros = whole(clock), 0
  else
    local time = call('TIME')
    micros = tonumber(time[2])
    now = tonumber(time[1]) * 1000 + math.floor(micros / 1000)
  end
end

-- Reads the queue's settings. Returns a refusal to hand back, or nil when the script may go on.
local function open(format)
  if type(format) ~= 'string' or whole(format) ~= FORMAT then
    return { 'badargs', 'format' }
  end
  local c = pcall_redis('HMGET', CONFIG, 'v', 'lease_ms', 'clock', 'retain_completed', 'retain_failed',
    'retain_timed_out', 'retain_aborted')
  if c.err then
    return { 'wrongtype', CONFIG }
  end
  if not c[1] then
    return { 'unregistered' }
  end
  if tonumber(c[1]) ~= FORMAT then
    return { 'format', c[1] }
  end
  read_clock(c[3])
  T = whole(c[2], 3)
  for i, state in ipairs(ENDED) do
    local ms = tonumber(c[3 + i])
    retention[state] = ms and ms >= 0 and ms < MOST_WHOLE and ms or nil
  end
  if not (T and now and retention.completed and retention.failed and retention.timed_out and retention.aborted) then
    return { 'wrongtype', CONFIG }
  end
  B = math.floor(T / 3)
  return nil
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

-- The first write decides whether a full Redis refuses a script: this one is always allowed.
local function allowed_first_write()
  call('DEL', NEVER)
end

-- Puts a tag and a state for each item into a reply: only the first as long as all are the same. To be called for the
-- first item and for each that is not as `alike` says.
local alike = {}

local function tell(reply, item, tag, state)
  if item == 1 then
    alike.tag, alike.state = tag, state
  elseif alike.tag then
    for i = 2, item - 1 do
      reply[2 * i + 1], reply[2 * i + 2] = alike.tag, alike.state
    end
    alike.tag = nil
  end
  reply[2 * item + 1], reply[2 * item + 2] = tag, state
end
