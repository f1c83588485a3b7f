-- enqueue: accepts new tasks: queued at once, or scheduled for later.
--
-- TRANSITIONS: (none) -> queued, scheduled
-- ARGV: format
-- ITEM: id digest level when policy body
--   digest: of name, payload and spec (headers apart), any bytes
--   level: urgent, high, normal or low
--   when: '' at once, '+ms' from now, '@ms' at that time by Redis's clock
--   policy: '' for the defaults, else a MessagePack array as lib/policy.lua says
--   body: MessagePack, opaque here
-- DERIVED: Q:task:<id> Q:body:<id> Q:ready:<level> Q:scheduled Q:gone Q:totals Q:events Q:wake
-- RETURNS: {'ok', now_ms, then per item: tag, state}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: created exists conflict corrupt
-- RELIES ON: the first write being one that a full Redis denies, so that it fails whole
-- REPEATABLE: yes; the same id and digest answers `exists` with the state as it is, `gone` after its removal

local FIELDS, ID_BYTES, LATEST_MS = 6, 64, 253402300799000
local format = ARGV[1]
local items, junk = {}, nil
for at = 2, #ARGV, FIELDS do
  local when = ARGV[at + 3]
  local sign, ms = string.match(when or '', '^([+@])(%d+)$')
  local item = { id = ARGV[at], digest = ARGV[at + 1], level = ARGV[at + 2], policy = ARGV[at + 4],
    body = ARGV[at + 5], sign = sign, ms = whole(ms) }
  if not item.body or item.body == '' or item.digest == '' then
    junk = 'items come in groups of 6'
  elseif item.id == '' or #item.id > ID_BYTES or string.find(item.id, '%c') then
    junk = 'id'
  elseif not IS_LEVEL[item.level] or item.level == 'again' then
    junk = 'level'
  elseif when ~= '' and not (item.ms and item.ms <= LATEST_MS) then
    junk = 'when'
  elseif item.policy ~= '' then
    item.policy = valid_policy(item.policy)
    junk = junk or (not item.policy and 'policy') or nil
  end
  items[#items + 1] = item
end

local refused = open(format) or (junk and { 'badargs', junk })
  or wrong_type('ready:urgent', 'ready:high', 'ready:normal', 'ready:low', 'scheduled', 'gone', 'totals', 'events',
    'wake')
if refused then
  return refused
end

local function accept(item)
  local id = item.id
  local rec = { v = FORMAT, en = now, dg = item.digest }
  if item.level ~= 'normal' then
    rec.lv = item.level
  end
  if item.policy ~= '' then
    rec.p = item.policy
  end
  local due = item.sign == '+' and now + item.ms or item.sign == '@' and item.ms or 0
  if due > now then
    place_scheduled(id, rec, due)
  else
    place_queued(id, rec, item.level)
  end
  set_body(id, rec, item.body)
  save(id, rec)
  event(id, '', rec.st, 0, '')
  count('enqueued')
  return 'created', rec.st
end

local reply = { 'ok', now }
for _, item in ipairs(items) do
  local rec = load(item.id)
  local tag, state
  if rec == false then
    tag, state = 'corrupt', ''
  elseif rec then
    tag, state = rec.dg == item.digest and 'exists' or 'conflict', rec.st
  elseif is_gone(item.id) then
    tag, state = 'exists', 'gone'
  else
    tag, state = accept(item)
  end
  reply[#reply + 1] = tag
  reply[#reply + 1] = state
end
commit()
return reply
