import { request } from 'node:http'

/** The status of an answer to a request that announces a body and sends none of it. */
export async function announce(url: string, key: string, length: number): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, 'content-length': length }
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const outgoing = request(url, { method: 'POST', headers }, (incoming) => {
    resolve(incoming.statusCode ?? 0)
    outgoing.destroy()
  })
  outgoing.once('error', reject)
  outgoing.flushHeaders()
  return promise
}
