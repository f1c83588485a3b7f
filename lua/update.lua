-- update: what a run tells of itself while it runs: progress, or a piece of its log.
--
-- TRANSITIONS: none
-- ARGV: format incarnation kind
--   kind: progress or log; a call is of one kind, for a full Redis refuses log text and takes progress
-- ITEM: id run number value text
--   progress: number grows per run; value: 0 to 1, or ''; text: the message, at most 1 KiB
--   log: number: byte offset of the text within the run's output; value: out or err; text: the bytes
-- DERIVED: Q:task:<id> Q:note:<id> Q:log:<id> Q:gone
-- RETURNS: {'ok', now_ms, then per item: tag}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok gone lost corrupt
-- RELIES ON: log text being the first write of its call, so that a full Redis refuses it whole
-- REPEATABLE: yes; a number (log: an end offset) not above the last one is answered and writes nothing

local HEAD_BYTES, LOG_BYTES, DROPPED_AT_ONCE = 65536, 1048576, 64
local FIELDS = 5
local format, inc, kind = ARGV[1], ARGV[2], ARGV[3]
local items, junk = {}, nil
for at = 4, #ARGV, FIELDS do
  local item = { id = ARGV[at], run = ARGV[at + 1], number = whole(ARGV[at + 2]), value = ARGV[at + 3],
    text = ARGV[at + 4] }
  local share = tonumber(item.value)
  if not item.text or not item.number then
    junk = 'items come in groups of 5, the third a whole number'
  elseif kind == 'log' and item.value ~= 'out' and item.value ~= 'err' then
    junk = 'value: out or err'
  elseif kind == 'progress' and item.value ~= '' and not (share and share >= 0 and share <= 1) then
    junk = 'value: 0 to 1'
  end
  items[#items + 1] = item
end

local refused = open(format)
  or ((junk or not inc or (kind ~= 'progress' and kind ~= 'log')) and { 'badargs', junk or 'kind' })
  or wrong_type('gone')
if refused then
  return refused
end

local function progress(item, rec)
  if item.number <= (rec.us or 0) then
    return
  end
  rec.us, rec.pg = item.number, tonumber(item.value) or rec.pg
  if item.text ~= '' then
    call('SET', Q .. 'note:' .. item.id, item.text)
  end
  save(item.id, rec)
end

-- Keeps the first HEAD_BYTES and the newest; what is dropped shows as a gap between offsets.
local function drop_middle(rec, log)
  local after = rec.lh and '(' .. rec.lh or '-'
  for _, entry in ipairs(call('XRANGE', log, after, '+', 'COUNT', DROPPED_AT_ONCE)) do
    if rec.lb <= LOG_BYTES then
      return
    end
    call('XDEL', log, entry[1])
    rec.lb = rec.lb - #entry[2][8]
  end
end

local function append(item, rec)
  local ends = item.number + #item.text
  if ends <= (rec.lo or 0) then
    return
  end
  local log = Q .. 'log:' .. item.id
  if call('TYPE', log).ok ~= 'stream' then
    if call('EXISTS', log) == 1 then
      return
    end
  end
  local entry = call('XADD', log, '*', 'n', rec.n, 'o', int(item.number), 's', item.value, 't', item.text)
  rec.lo = ends
  rec.lb = (rec.lb or 0) + #item.text
  if rec.lb <= HEAD_BYTES then
    rec.lh = entry
  end
  if rec.lb > LOG_BYTES then
    drop_middle(rec, log)
  end
  save(item.id, rec)
end

if kind == 'progress' then
  allowed_first_write()
end
local reply = { 'ok', now }
for _, item in ipairs(items) do
  local rec = load(item.id)
  local tag = 'ok'
  if rec == false then
    tag = 'corrupt'
  elseif not rec then
    tag = is_gone(item.id) and 'gone' or 'lost'
  elseif not owns(rec, item.run, inc) then
    tag = 'lost'
  elseif kind == 'progress' then
    progress(item, rec)
  else
    append(item, rec)
  end
  reply[#reply + 1] = tag
end
return reply
