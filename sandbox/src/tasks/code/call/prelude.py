from typing import *
from collections import *
from functools import *
from itertools import *
from heapq import *
from bisect import *
from math import *
import bisect, collections, copy, functools, heapq, itertools, json, math, random, re, string, sys
