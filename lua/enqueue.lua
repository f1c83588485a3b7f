-- enqueue: accepts new tasks: queued at once, scheduled for later, or waiting for their turn in a lane.
--
-- TRANSITIONS: (none) -> queued, scheduled, waiting
-- ARGV: format form
--   form: short (no item has `when` and `spec`) or full
-- ITEM: id level fixed when spec
--   level: urgent, high, normal or low
--   fixed: what never changes: its length without these 2 bytes (any, if larger); digest of name, payload and spec
--     (headers apart, 8 bytes); length of the policy, 0 for the defaults, and the policy, a MessagePack array as
--     lib/policy.lua says; the body, opaque here
--   when: '' at once, '+ms' from now, '@ms' at that time by Redis's clock
--   spec: '' or a MessagePack map: lane, owner, deadline (as `when`), silence and stall (ms), budgets (a map of maxima)
-- DERIVED: Q:task:<id> Q:body:<id> Q:ready:<level> Q:scheduled Q:waiting Q:deadlines Q:lanes Q:lane:<hash>
--   Q:owner:<hash> Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state; or once for all where they are the same}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: created exists conflict corrupt
-- RELIES ON: the first write being one that a full Redis denies, so that it fails whole
-- REPEATABLE: yes; the same id and digest answers `exists` with the state as it is, `gone` after its removal

local format, form = ARGV[1], ARGV[2]
local FIRST, FIELDS = 3, form == 'full' and 5 or 3

-- INCLUDE base known ledger alike plain plain_new fixed offer

-- What few tasks need, opened by the first that does.
local long
local function open_long_way()
  -- INCLUDE notes policy sound codec record ended place lane_row lane types enqueue_rare
  return { policy_is_sound = policy_is_sound, spec_fault = spec_fault, refused = types_refused, load = load,
    known_as = known_as, is_gone = is_gone, event = event, accept = accept_rare, stands = lane_stands }
end

local function long_way()
  long = long or open_long_way()
  return long
end

-- INCLUDE offered

junk = junk or ((#args - FIRST + 1) % FIELDS ~= 0 and 'items are not whole' or nil)
local refused = unopened or (junk and { 'badargs', junk })
local somebody_went
if not refused then
  for level in pairs(levels) do
    read('XLEN', 'ready:' .. level)
  end
  if form == 'full' then
    misread = misread or long_way().refused
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

local heads, fresh, delayed, ready = {}, {}, 0, {}

local function ready_key(level)
  ready[level] = ready[level] or Q .. 'ready:' .. level
  return ready[level]
end

local function accept(id, key, level, fixed, when, spec)
  local due = when and when ~= '' and due_of(when) or 0
  if due > now or #fixed > INLINE or (spec and spec ~= '') then
    delayed = delayed + 1
    local state = long_way().accept(id, level, fixed, due, spec)
    long.event(id, '', state, 0)
    return state
  end
  put(key, plain_new(heads, level, call('XADD', ready_key(level), '*', 'i', id), fixed))
  fresh[#fresh + 1] = id
  return 'queued'
end

-- Most often no task is known: one look for all.
local there = 0
for first = 1, #keys, SLICE do
  there = there + call('EXISTS', unpack(keys, first, math.min(first + SLICE - 1, #keys)))
end
if there > 0 then
  prefetch(keys)
end
local reply = { 'ok', now }
for i = 1, #keys do
  local key, at = keys[i], FIRST + (i - 1) * FIELDS
  local id, level, fixed = args[at], args[at + 1], args[at + 2]
  local tag, state = 'created', nil
  if (there > 0 or known[key]) and long_way().load(id) ~= nil then
    tag, state = long.known_as(id, fixed)
  elseif somebody_went and long_way().is_gone(id) then
    tag, state = 'exists', 'gone'
  elseif FIELDS == 5 and not long_way().stands(args[at + 4]) then
    tag, state = 'corrupt', ''
  elseif FIELDS == 5 then
    state = accept(id, key, level, fixed, args[at + 3], args[at + 4])
  else
    state = accept(id, key, level, fixed)
  end
  if tag ~= alike.tag or state ~= alike.state then
    tell(reply, i, tag, state)
  end
end
if #fresh > 0 then
  ledger.wake = true
  ledger.groups[#ledger.groups + 1] = { '', 'queued', 0, '', fresh }
end
if #fresh + delayed > 0 then
  ledger.totals.enqueued = #fresh + delayed
end
commit()
return reply
