-- enqueue: accepts new tasks: queued at once, or scheduled for later.
--
-- TRANSITIONS: (none) -> queued, scheduled
-- ARGV: format timing
--   timing: now (no item has a `when`) or each
-- ITEM: id level fixed when
--   level: urgent, high, normal or low
--   fixed: what never changes: its length without these 2 bytes (any, if larger); digest of name, payload and spec
--     (headers apart, 8 bytes); length of the policy, 0 for the defaults, and the policy, a MessagePack array as
--     lib/policy.lua says; the body, opaque here
--   when: '' at once, '+ms' from now, '@ms' at that time by Redis's clock
-- DERIVED: Q:task:<id> Q:body:<id> Q:ready:<level> Q:scheduled Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state; or once for all where they are the same}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: created exists conflict corrupt
-- RELIES ON: the first write being one that a full Redis denies, so that it fails whole
-- REPEATABLE: yes; the same id and digest answers `exists` with the state as it is, `gone` after its removal

local format, timing = ARGV[1], ARGV[2]
local FIRST, FIELDS = 3, timing == 'each' and 4 or 3

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

local junk = timing ~= 'now' and timing ~= 'each' and 'timing' or nil
local levels = {}
for at = FIRST, #ARGV, FIELDS do
  junk = junk or fault_of(ARGV[at], ARGV[at + 1], ARGV[at + 2], FIELDS == 4 and ARGV[at + 3] or '', policy_is_sound)
  levels[ARGV[at + 1] or ''] = true
end
junk = junk or ((#ARGV - FIRST + 1) % FIELDS ~= 0 and 'items are not whole' or nil)
local refused = open(format) or (junk and { 'badargs', junk })
local somebody_went
if not refused then
  for level in pairs(levels) do
    read('XLEN', 'ready:' .. level)
  end
  if timing == 'each' then
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

local heads, fresh, delayed = {}, {}, 0

local function accept(id, key, level, fixed, when)
  local due = when and when ~= '' and due_of(when) or 0
  if due > now or #fixed > INLINE then
    delayed = delayed + 1
    local state = long_way().accept(id, level, fixed, due)
    event(id, '', state, 0)
    return state
  end
  put(key, plain_new(heads, level, call('XADD', Q .. 'ready:' .. level, '*', 'i', id), fixed))
  fresh[#fresh + 1] = id
  return 'queued'
end

-- What is there already under an id.
local function known_as(id, fixed)
  local rec = long_way().load(id)
  if rec == false then
    return 'corrupt', ''
  end
  return digest_of(rec.fixed) == digest_of(fixed) and 'exists' or 'conflict', rec.st
end

-- Most often no task is known: one look for all.
local keys = task_keys(ARGV, FIRST, FIELDS)
if not none_is_there(keys) then
  prefetch(keys)
end
local reply, tell = { 'ok', now }, teller()
for i = 1, #keys do
  local at = FIRST + (i - 1) * FIELDS
  local id, level, fixed = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local tag, state = 'created', nil
  if known[keys[i]] ~= ABSENT and long_way().load(id) ~= nil then
    tag, state = known_as(id, fixed)
  elseif somebody_went and is_gone(id) then
    tag, state = 'exists', 'gone'
  else
    state = accept(id, keys[i], level, fixed, FIELDS == 4 and ARGV[at + 3])
  end
  tell(reply, tag, state)
end
if #fresh > 0 then
  ledger.wake = true
  events_of(fresh, '', 'queued', 0)
end
if #fresh + delayed > 0 then
  count('enqueued', #fresh + delayed)
end
commit()
return reply
