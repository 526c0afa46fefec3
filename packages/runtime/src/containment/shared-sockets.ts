import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Socket } from 'node:net'

import { outsideOfRollouts } from '@osmosis/core/http'

/** Undici, of which `fetch` is made, says on this channel that it is about to connect. */
const channel = 'undici:client:beforeConnect'

/**
 * Opens pooled connections of undici outside of the rollout that happened to need them first: they serve
 * all, and what fails on them would look like its doing. Returns what undoes it.
 */
export function shareSockets(): () => void {
  let expected = false
  const { prototype } = Socket
  const { connect } = prototype // oxlint-disable-line typescript/unbound-method -- put back as it is
  const sharing = function (this: Socket, ...args: Parameters<typeof connect>): Socket {
    if (!expected) return Reflect.apply(connect, this, args)
    expected = false
    return outsideOfRollouts(() => Reflect.apply(connect, this, args))
  } as typeof connect
  const onConnect = (): void => {
    expected = true
    // Another way to connect may be in use, which opens no socket here and now.
    queueMicrotask(() => (expected = false))
  }

  prototype.connect = sharing
  subscribe(channel, onConnect)
  return () => {
    unsubscribe(channel, onConnect)
    if (prototype.connect === sharing) prototype.connect = connect
  }
}
