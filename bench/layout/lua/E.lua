-- E: C made lean. A field at its default is absent, and the client sends the record's head already packed (a map16
-- that announces two more pairs); the script appends en and run and packs nothing.
function V.create(ids, heads, bodies)
  local sets = {}
  local tail = '\162en' .. pack(now) .. '\163run'
  for i = 1, #ids do
    local run = 'n:' .. call('XADD', READY, '*', 'i', ids[i])
    sets[#sets + 1] = TASK .. ids[i]
    sets[#sets + 1] = heads[i] .. tail .. string.char(160 + #run) .. run
    if bodies[i] ~= '' then
      sets[#sets + 1] = BODY .. ids[i]
      sets[#sets + 1] = bodies[i]
    end
  end
  call('MSET', unpack(sets))
end
