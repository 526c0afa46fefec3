import { OsmosisChatModel } from '@osmosis/langchain'

import { servesWhereItIsKept } from '../../../test/kit/index.ts'

const make = () => {
  const model = new OsmosisChatModel('main')
  return async () => model.invoke('go')
}

servesWhereItIsKept(make)
