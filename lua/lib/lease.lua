-- lease: the sign that a run is alive. The record says who owns a task.
--
-- The claim is the first lease: for T from `bg` on, the record itself says that the run is alive. The first heartbeat
-- turns it into a key with a TTL. So work that ends before its first beat costs no key, and no task that runs is ever
-- without a lease.

local fence, lease, mark_key, lease_left

do
local DRIVEN_PX = 86400000

function fence(rec)
  return rec.run .. ' ' .. rec.inc
end

-- A run that is asked to stop has that in its key, too, and one that has bounds of its own says that the record is to be
-- looked at: a heartbeat that finds its bare fence there knows without it that nothing has changed.
local STOP, LOOK = ' stop', ' look'

local function key_value(rec)
  return fence(rec) .. (rec.sp and STOP or is_bounded(rec) and LOOK or '')
end

-- Says in the key, if there is one, what the record has to tell now.
function mark_key(id, rec)
  if not driven then
    call('SET', Q .. 'lease:' .. id, key_value(rec), 'XX', 'KEEPTTL')
  end
end

-- When a key was last written for an incarnation: a run that began later has none, and its finish looks for none. It
-- only grows: a clock that steps back must not make a run look younger than its key.
local function note_key(rec)
  local key = Q .. 'beat:' .. rec.inc
  local before = tonumber(pcall_redis('GET', key) or 0) or 0
  call('SET', key, int(math.max(before, now, rec.bg)), 'PX', driven and DRIVEN_PX or int(2 * T))
end

-- Takes or renews the lease of a record's run for `ms`.
function lease(id, rec, ms)
  if driven then
    call('SET', Q .. 'lease:' .. id, key_value(rec) .. ' ' .. int(now + ms), 'PX', DRIVEN_PX)
  else
    call('SET', Q .. 'lease:' .. id, key_value(rec), 'PX', int(ms))
  end
  note_key(rec)
end

-- Milliseconds left of the claim's own lease. One that begins in the future (a clock stepped back) proves nothing.
local function first_lease_left(rec)
  local age = now - rec.bg
  return age >= 0 and math.max(0, T - age) or 0
end

local function names_run(value, rec)
  local own = fence(rec)
  return value == own or value == own .. STOP or value == own .. LOOK
end

-- Milliseconds left of the key, 0 without one. Clamps what lies further ahead than any lease can.
local function key_left(id, rec)
  local held = pcall_redis('GET', Q .. 'lease:' .. id)
  if type(held) ~= 'string' then
    return 0
  end
  if driven then
    local whose, expiry = string.match(held, '^(.*) (%d+)$')
    local left = names_run(whose, rec) and math.max(0, tonumber(expiry) - now) or 0
    if left > T + B then
      lease(id, rec, T)
      return T
    end
    return left
  end
  if not names_run(held, rec) then
    return 0
  end
  local left = call('PTTL', Q .. 'lease:' .. id)
  if left < 0 or left > T + B then
    call('PEXPIRE', Q .. 'lease:' .. id, int(T))
    return T
  end
  return math.max(left, 1)
end

-- Milliseconds left, 0 when this run holds no lease.
function lease_left(id, rec)
  return math.max(key_left(id, rec), first_lease_left(rec))
end
end
