-- types: the types of the keys that a queue has once, durations, and the first write.

local SHARED_TYPES = { running = 'zset', scheduled = 'zset', waiting = 'zset', deadlines = 'zset', lanes = 'hash', gone = 'zset', wake = 'zset', events = 'stream',
  totals = 'hash', pulse = 'hash', token = 'string', watch = 'string', waited = 'string', ['done:completed'] = 'zset',
  ['done:failed'] = 'zset', ['done:timed_out'] = 'zset', ['done:aborted'] = 'zset', ['ready:urgent'] = 'stream',
  ['ready:again'] = 'stream', ['ready:high'] = 'stream', ['ready:normal'] = 'stream', ['ready:low'] = 'stream' }

-- Redis rolls nothing back, so a key of the wrong type must be found before the first write.
local function wrong_type(...)
  for _, suffix in ipairs({ ... }) do
    local found = call('TYPE', Q .. suffix).ok
    if found ~= 'none' and found ~= SHARED_TYPES[suffix] then
      return { 'wrongtype', Q .. suffix }
    end
  end
  return nil
end

-- A duration in an argument, at most ten years, or nil.
local function duration(text)
  local ms = whole(text)
  return ms and math.min(ms, MOST_MS)
end

-- The first write decides whether a full Redis refuses a script: this one is always allowed.
local function allowed_first_write()
  call('DEL', NEVER)
end
