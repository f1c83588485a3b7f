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

-- INCLUDE base types known ledger notes plain policy fixed codec record

local HEAD_BYTES, LOG_BYTES, PAGE, PAGES, NOTE_BYTES = 65536, 1048576, 128, 32, 1024
local FIELDS = 5
local format, inc, kind = ARGV[1], ARGV[2], ARGV[3]
local items, junk = {}, nil
for at = 4, #ARGV, FIELDS do
  local item = { id = ARGV[at], run = ARGV[at + 1], number = whole(ARGV[at + 2]), value = ARGV[at + 3],
    text = ARGV[at + 4] }
  local share = string.find(item.value or '', '^[01]%.?%d*$') and tonumber(item.value)
  if not item.text or not item.number then
    junk = 'items come in groups of 5, the third a whole number'
  elseif kind == 'log' and item.value ~= 'out' and item.value ~= 'err' then
    junk = 'value: out or err'
  elseif kind == 'progress' and item.value ~= '' and not (share and share <= 1) then
    junk = 'value: 0 to 1'
  end
  items[#items + 1] = item
end

local refused = unopened
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
    call('SET', Q .. 'note:' .. item.id, string.sub(item.text, 1, NOTE_BYTES))
  end
  save(item.id, rec)
end

-- Keeps the first HEAD_BYTES and the newest; what is dropped shows as a gap between offsets.
local function drop_middle(rec, log)
  local after = rec.lh and '(' .. rec.lh or '-'
  for _ = 1, PAGES do
    local old = {}
    for _, entry in ipairs(pcall_redis('XRANGE', log, after, '+', 'COUNT', PAGE)) do
      if rec.lb <= LOG_BYTES then
        break
      end
      old[#old + 1] = entry[1]
      rec.lb = rec.lb - #(entry[2][8] or '')
    end
    if #old == 0 then
      return
    end
    call('XDEL', log, unpack(old))
  end
end

local function append(item, rec)
  local offset, text = item.number, item.text
  local known = math.max(0, (rec.lo or 0) - offset)
  local log = Q .. 'log:' .. item.id
  local found = call('TYPE', log).ok
  if known >= #text or (found ~= 'stream' and found ~= 'none') then
    return
  end
  local function write(first, last)
    local piece = string.sub(text, first, last)
    local entry = call('XADD', log, '*', 'n', rec.n, 'o', int(offset + first - 1), 's', item.value, 't', piece)
    rec.lb = (rec.lb or 0) + #piece
    rec.lh = rec.lb <= HEAD_BYTES and entry or rec.lh
  end
  -- Cut at the end of the head, so that the head is kept to its last byte.
  local cut = known + HEAD_BYTES - (rec.lb or 0)
  if cut > known and cut < #text then
    write(known + 1, cut)
    known = cut
  end
  write(known + 1, #text)
  rec.lo = offset + #text
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
  if not rec then
    tag = rec == false and 'corrupt' or is_gone(item.id) and 'gone' or 'lost'
  elseif not owns(rec, item.run, inc) then
    tag = 'lost'
  elseif kind == 'progress' then
    progress(item, rec)
  else
    append(item, rec)
  end
  reply[#reply + 1] = tag
end
commit()
return reply
