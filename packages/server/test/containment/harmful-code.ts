import { EventEmitter } from 'node:events'
import { readFile } from 'node:fs'
import { createServer as createHttpServer, get } from 'node:http'
import { connect, createServer, type AddressInfo } from 'node:net'
import { exit } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'

/** Ways in which user code harms the process that it runs in. */
export const harms: Record<string, (text: string) => unknown> = {
  'process.exit': () => process.exit(0),
  'exit imported by name': () => exit(3),
  'exit in a timer': () => setTimeout(() => process.exit(), 1),
  'exit that is caught': () => {
    try {
      process.exit(0)
    } catch {
      return undefined
    }
    return undefined
  },
  setTimeout: (text) => setTimeout(() => fail(text), 1),
  setImmediate: (text) => setImmediate(() => fail(text)),
  nextTick: (text) => process.nextTick(() => fail(text)),
  queueMicrotask: (text) => queueMicrotask(() => fail(text)),
  'event emitter': (text) => {
    const emitter = new EventEmitter()
    emitter.on('event', () => fail(text))
    setTimeout(() => emitter.emit('event'), 1)
  },
  'error event without a listener': (text) =>
    setTimeout(() => new EventEmitter().emit('error', new Error(text)), 1),
  file: (text) => readFile('/', () => fail(text)),
  socket: (text) => {
    const server = createServer((socket) => socket.end('hi')).listen(0, '127.0.0.1')
    server.on('listening', () => {
      const socket = connect((server.address() as AddressInfo).port)
      socket.on('data', () => {
        server.close()
        fail(text)
      })
    })
  },
  'response of a request': (text) => {
    const server = createHttpServer((_, response) => response.end('hi')).listen(0, '127.0.0.1')
    server.on('listening', () => {
      get(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => {
        server.close()
        fail(text)
      })
    })
  },
  'listener of the deadline': (text) => {
    const controller = new AbortController()
    controller.signal.addEventListener('abort', () => fail(text))
    controller.abort()
  },
  'rejected promise': (text) => void Promise.reject(new Error(text)),
  'rejected async function': (text) => {
    const forgotten = async (): Promise<void> => {
      await delay(1)
      fail(text)
    }
    void forgotten()
  },
  'promise that a timer rejects': (text) =>
    void new Promise((_, reject) => setTimeout(() => reject(new Error(text)), 1)),
  'all listeners removed': (text) => {
    process.removeAllListeners()
    setTimeout(() => fail(text), 1)
  },
  'thrown text': (text) =>
    setTimeout(() => {
      // oxlint-disable-next-line typescript/only-throw-error -- as user code does
      throw text
    }, 1),
  'error without a readable stack': (text) => {
    const error = Object.defineProperty(new Error(text), 'stack', { get: () => fail('no stack') })
    void Promise.reject(error)
  },
}

function fail(text: string): never {
  throw new Error(text)
}
