-- update: what a run tells of itself while it runs.
--
-- TRANSITIONS: none (a charge above the rest of a budget records the stop of the run)
-- ARGV: format incarnation kind
--   kind: progress, log, phase, spend, checkpoint or unkillable; a call is of one kind, for a full Redis refuses log text
--     and takes the others
-- ITEM: id run number value text
--   progress: number grows per run; value: 0 to 1, or ''; text: the message, at most 1 KiB
--   log: number: byte offset of the text within the run's output; value: out or err; text: the bytes
--   phase: number grows per run; value: its timeout, ms, or '' for none; text: its name
--   spend: number grows per run, one item of a run a call; value: charges, parted by spaces; text: name of the budget
--   checkpoint: number grows per run; value: ''; text: the bytes
--   unkillable: number, value: 0 and ''; text: the pids that the system does not end
-- DERIVED: Q:task:<id> Q:note:<id> Q:log:<id> Q:phases:<id> Q:checkpoint:<id> Q:lease:<id> Q:running Q:gone Q:events
-- RETURNS: {'ok', now_ms, then per item: tag, value (spend: how many charges were taken, and the rest; else '')}
-- TAGS: ok unregistered format wrongtype badargs
-- ITEM TAGS: ok exceeded unknown gone lost corrupt
-- RELIES ON: log text being the first write of its call, so that a full Redis refuses it whole
-- REPEATABLE: yes; a number (log: an end offset) not above the last one gets its answer and writes nothing

-- INCLUDE base types known ledger notes plain policy fixed sound codec record bounds lease phase stop log told

local FIELDS = 5
local format, inc, kind = ARGV[1], ARGV[2], ARGV[3]
local told = TOLD[kind]
local items, junk = {}, nil
for at = 4, #ARGV, FIELDS do
  local item = { id = ARGV[at], run = ARGV[at + 1], number = whole(ARGV[at + 2]), value = ARGV[at + 3],
    text = ARGV[at + 4] }
  if not item.text or not item.number then
    junk = 'items come in groups of 5, the third a whole number'
  else
    junk = junk or (told and told.fault(item)) or nil
  end
  items[#items + 1] = item
end

local refused = unopened or ((junk or not inc or not told) and { 'badargs', junk or 'kind' })
  or wrong_type('gone', 'running', 'totals', 'events')
if refused then
  return refused
end

if kind ~= 'log' then
  allowed_first_write()
end
local reply = { 'ok', now }
for _, item in ipairs(items) do
  local rec = load(item.id)
  local tag, value = 'ok', ''
  if not rec then
    tag = rec == false and 'corrupt' or is_gone(item.id) and 'gone' or 'lost'
  elseif not owns(rec, item.run, inc) then
    tag = 'lost'
  else
    tag, value = told.take(item, rec)
  end
  reply[#reply + 1] = tag or 'ok'
  reply[#reply + 1] = value or ''
end
commit()
return reply
