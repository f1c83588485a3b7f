-- declare: the incarnations that the caller of `sweep` has proved dead. They are marked, and their runs are reclaimed
-- without waiting for leases: page by page of `Q:running`, by a cursor that a row whose score moves does not escape.

-- Each { incarnation, cursor, what is remembered of its last claim }; `undeclared` is the refusal to hand back.
local declared, undeclared, declare_dead = {}, nil, nil

do
local MOST_DECLARED, DEAD_MS, INCARNATION_BYTES = 16, '86400000', 64

for at = 3, #ARGV, 2 do
  local inc, cursor = ARGV[at], ARGV[at + 1] or ''
  if inc == '' or #inc > INCARNATION_BYTES or not string.find(cursor, '^%d+$') or #cursor > 20
    or #declared == MOST_DECLARED then
    undeclared = { 'badargs', 'at most 16 incarnations, each with its cursor, 0 at first' }
    break
  end
  local memory = claim_memory(inc)
  if memory == false then
    undeclared = undeclared or { 'wrongtype', Q .. 'claim:' .. inc }
  end
  declared[#declared + 1] = { inc, cursor, memory or { n = 0, ids = '' } }
end

-- Reclaims the runs of an incarnation among one page. A record that cannot be read proves nothing: it is left alone.
local function reclaim_page(inc, rows)
  local ids, reclaimed = {}, 0
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]
  end
  prefetch(task_keys(ids))
  for _, id in ipairs(ids) do
    local raw = known[TASK .. id]
    -- Most rows are those of others: then the record need not be taken apart.
    local rec = (type(raw) ~= 'string' or find(raw, inc, 1, true)) and load(id)
    if rec and (rec.st == 'running' or rec.st == 'aborting') and rec.inc == inc then
      reconcile(id, rec, 'worker start', 'it died')
      reclaimed = reclaimed + 1
    end
  end
  return #ids, reclaimed
end

-- Answers per incarnation where to go on ('0' = all has been seen), rows looked at, runs reclaimed.
function declare_dead(limit)
  local reply = { 'ok', now }
  for _, one in ipairs(declared) do
    local inc, memory = one[1], one[3]
    -- Before the first page: from then on no claim can add a row that the walk has passed.
    memory.dead = memory.dead or now
    call('SET', Q .. 'claim:' .. inc, cmsgpack.pack(memory), 'PX', DEAD_MS)
    local page = call('ZSCAN', Q .. 'running', one[2], 'COUNT', limit)
    local n = #reply
    reply[n + 1] = page[1]
    reply[n + 2], reply[n + 3] = reclaim_page(inc, page[2])
  end
  commit()
  return reply
end
end
