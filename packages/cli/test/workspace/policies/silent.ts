import type { PolicyModel } from '@osmosis/controller'

/** Never answers. */
export const policy: PolicyModel = {
  name: 'silent',
  respond: () => new Promise<Response>(() => {}),
}
