-- enqueue: accepts new tasks: queued at once, or scheduled for later.
--
-- TRANSITIONS: (none) -> queued, scheduled
-- ARGV: format
-- ITEM: id level when fixed
--   level: urgent, high, normal or low
--   when: '' at once, '+ms' from now, '@ms' at that time by Redis's clock
--   fixed: what never changes: its length without these 2 bytes (any, if larger); digest of name, payload and spec
--     (headers apart, 16 bytes); length of the policy, 0 for the defaults, and the policy, a MessagePack array as
--     lib/policy.lua says; the body, opaque here
-- DERIVED: Q:task:<id> Q:body:<id> Q:ready:<level> Q:scheduled Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: created exists conflict corrupt
-- RELIES ON: the first write being one that a full Redis denies, so that it fails whole
-- REPEATABLE: yes; the same id and digest answers `exists` with the state as it is, `gone` after its removal

local format = ARGV[1]
local FIELDS, FIRST = 4, 2

-- INCLUDE base known moves ledger plain fixed offer

-- What few tasks need, opened by the first that does.
local long

local function open_long_way()
  -- INCLUDE policy codec record ended place enqueue_rare
  return { policy_is_sound = policy_is_sound, load = load, accept = accept_rare }
end

local function long_way()
  long = long or open_long_way()
  return long
end

local function policy_is_sound(fixed)
  return long_way().policy_is_sound(fixed)
end

local junk, delayed
local levels = {}
for at = FIRST, #ARGV, FIELDS do
  junk = junk or fault_of(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], policy_is_sound)
  levels[ARGV[at + 1] or ''] = true
  delayed = delayed or ARGV[at + 2] ~= ''
end
local refused = open(format) or (junk and { 'badargs', junk })
local somebody_went
if not refused then
  for level in pairs(levels) do
    read('XLEN', 'ready:' .. level)
  end
  if delayed then
    read('ZCARD', 'scheduled')
  end
  read('HLEN', 'totals')
  read('XLEN', 'events')
  read('ZCARD', 'wake')
  somebody_went = read('ZCARD', 'gone') ~= 0
  refused = misread
end
if refused then
  return refused
end

local function due_of(when)
  local ms = tonumber(string.sub(when, 2))
  return string.sub(when, 1, 1) == '+' and now + ms or ms
end

local heads, accepted = {}, 0

local function accept(id, key, level, when, fixed)
  local state, due = 'queued', when ~= '' and due_of(when) or 0
  if due > now or #fixed > INLINE then
    state = long_way().accept(id, level, fixed, due)
  else
    local entry = call('XADD', Q .. 'ready:' .. level, '*', 'i', id)
    put(key, plain_new(heads, level, level .. ':' .. entry, fixed))
    ledger.wake = true
  end
  event(id, '', state, 0)
  accepted = accepted + 1
  return 'created', state
end

local function answer(id, key, level, when, fixed)
  if known[key] ~= ABSENT then
    local rec = long_way().load(id)
    if rec == false then
      return 'corrupt', ''
    elseif rec then
      return digest_of(rec.fixed) == digest_of(fixed) and 'exists' or 'conflict', rec.st
    end
  end
  if somebody_went and is_gone(id) then
    return 'exists', 'gone'
  end
  return accept(id, key, level, when, fixed)
end

-- Most often no task is known: one look for all.
local keys = task_keys(ARGV, FIRST, FIELDS)
if not none_is_there(keys) then
  prefetch(keys)
end
local reply = { 'ok', now }
for i = 1, #keys do
  local at = FIRST + (i - 1) * FIELDS
  local tag, state = answer(ARGV[at], keys[i], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  reply[2 * i + 1] = tag
  reply[2 * i + 2] = state
end
if accepted > 0 then
  count('enqueued', accepted)
end
commit()
return reply
