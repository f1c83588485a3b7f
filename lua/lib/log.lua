-- log: the output of a run: the first 64 KiB and the newest of it.

local append

do
local HEAD_BYTES_KEPT, LOG_BYTES, PAGE, PAGES = 65536, 1048576, 128, 32

-- Keeps the head and the newest; what is dropped shows as a gap between offsets.
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

function append(item, rec)
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
    rec.lh = rec.lb <= HEAD_BYTES_KEPT and entry or rec.lh
  end
  -- Cut at the end of the head, so that the head is kept to its last byte.
  local cut = known + HEAD_BYTES_KEPT - (rec.lb or 0)
  if cut > known and cut < #text then
    write(known + 1, cut)
    known = cut
  end
  write(known + 1, #text)
  rec.lo = offset + #text
  if rec.lb > LOG_BYTES then
    drop_middle(rec, log)
  end
  note_life(item.id, rec)
  save(item.id, rec)
end
end
